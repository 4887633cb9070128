// Level 5: cross-entropy in CUDA C, forward and backward, for M rows of N columns. For each row with a target that is not
// ignored:
//
//     loss = lse - (1 - smoothing) * x[target] - smoothing * mean of x + z_loss * lse^2
//     dx = dloss * (exp(x - lse) * (1 + 2 * z_loss * lse) - (1 - smoothing) * [j = target] - smoothing / N)
//
// T is float, __half or __nv_bfloat16; the arithmetic is float, but lse is a double: of a float the gradient of large logits
// would have few right bits. SIZE values are read at once: a 16-byte vector, or one where rows are not made of vectors.

#include "parts.cuh"
#include "values.cuh"

#include <assert.h>

// The gradient of a logit x, of column j: `shift` and `p_factor` make exp(x - shift) * p_factor its first term.
template <typename T>
__device__ float gradient(float x, long long j, float shift, float correction, float p_factor, float scale, long long target,
                          float smoothing, int classes)
{
    const float wanted = (j == target ? 1.0f - smoothing : 0.0f) + smoothing / classes;
    return exp_for<T>(x - shift - correction) * p_factor - scale * wanted;
}

// M blocks of whole warps. One pass gives loss and lse, which may be null; where dx is given, a second pass gives the gradient
// of the loss, times *scale. dx may be x: each thread reads what it then writes.
template <typename T, int SIZE>
__global__ void cross_entropy_online(const T* x, const long long* target, float* loss, double* lse, const float* scale,
                                     T* dx, long long x_stride, int N, long long ignore_index, float smoothing,
                                     float z_loss)
{
    __shared__ Part warp_parts[32];
    __shared__ float sums[32];
    const long long row = blockIdx.x, wanted = target[row];
    x += row * x_stride;
    if (dx) dx += row * N;
    if (wanted == ignore_index) {  // nothing is read
        if (threadIdx.x == 0) loss[row] = 0.0f;
        if (threadIdx.x == 0 && lse) lse[row] = 0.0;
        const float zeros[SIZE] = {};
        for (int j = threadIdx.x * SIZE; dx && j < N; j += blockDim.x * SIZE) store_floats<SIZE>(dx + j, zeros);
        return;
    }
    assert(0 <= wanted && wanted < N && "target");
    const float at_target = (float)x[wanted], first = (float)x[0], from = fabsf(first) < INFINITY ? first : 0.0f;

    Part part;
    float away = 0.0f;  // the sum of the logits, by how far they are from the first: a mean far from 0 would cost bits
#pragma unroll 4  // vectors on their way at once
    for (int j = threadIdx.x * SIZE; j < N; j += blockDim.x * SIZE) {
        float values[SIZE];
        load_floats<SIZE>(x + j, values);
        float largest = part.largest;
        for (int i = 0; i < SIZE; ++i) largest = fmaxf(largest, values[i]);
        part.sum *= exp_for<T>(part.largest - largest);
        part.largest = largest;
        for (int i = 0; i < SIZE; ++i) {
            part.sum += exp_for<T>(values[i] - largest);
            away += values[i] - from;
        }
    }
    part = block_joined(part, warp_parts);
    const float log_sum = logf(part.sum), whole = part.largest + log_sum;
    if (smoothing > 0.0f) away = row_sum(away, sums);
    if (threadIdx.x == 0) {
        float row_loss = log_sum - (1.0f - smoothing) * (at_target - part.largest);
        if (smoothing > 0.0f) row_loss -= smoothing * (away / N + (from - part.largest));
        if (z_loss > 0.0f) row_loss += z_loss * whole * whole;
        loss[row] = row_loss;
        if (lse) lse[row] = (double)part.largest + log_sum;
    }
    if (!dx) return;

    const float loss_factor = *scale, p_factor = loss_factor * (z_loss > 0.0f ? 1.0f + 2.0f * z_loss * whole : 1.0f) / part.sum;
    __syncthreads();  // x[target] and x[0] have been read, should dx be x
    for (int j = threadIdx.x * SIZE; j < N; j += blockDim.x * SIZE) {
        float values[SIZE];
        load_floats<SIZE>(x + j, values);
        for (int i = 0; i < SIZE; ++i)
            values[i] = gradient<T>(values[i], j + i, part.largest, 0.0f, p_factor, loss_factor, wanted, smoothing, N);
        store_floats<SIZE>(dx + j, values);
    }
}

// What the gradient needs of a row.
struct Row {
    bool kept;  // else its x is not read
    long long target;
    float loss_factor, p_factor, whole, rest;

    __device__ void load(const float* dloss, const long long* targets, const double* lse, long long row,
                         long long ignore_index, float z_loss, int first)
    {
        target = targets[row] - first;
        kept = targets[row] != ignore_index;
        loss_factor = dloss[row];
        whole = (float)lse[row];
        rest = (float)(lse[row] - whole);
        p_factor = loss_factor * (1.0f + 2.0f * z_loss * whole);
    }
};

// x and dx have N columns of the classes, from the first on; dx may be x. The M * N values are divided as if they were one row:
// a thread has VECTORS times SIZE of them, blockDim.x vectors apart, and a vector may have the end of a row and the start of
// others, unless x_stride is not N.
template <typename T, int SIZE, int VECTORS>
__global__ void cross_entropy_backward(const float* dloss, const T* x, const long long* target, const double* lse, T* dx,
                                       long long x_stride, long long M, int N, long long ignore_index, float smoothing,
                                       float z_loss, int first, int classes)
{
    const long long start = (long long)blockIdx.x * blockDim.x * SIZE * VECTORS, left = M * N - start, start_row = start / N;
    const int beyond = (int)(start - start_row * N);
    float values[VECTORS][SIZE];
    Row rows[VECTORS];
    dx += start;
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        const int at = (k * blockDim.x + threadIdx.x) * SIZE;
        if (at >= left) break;
        const unsigned column = (unsigned)beyond + at;
        const long long row = start_row + column / N;
        rows[k].load(dloss, target, lse, row, ignore_index, z_loss, first);
        const int j = column % N;
        if (at + SIZE <= left) {
            if (rows[k].kept || j + SIZE > N) load_floats<SIZE>(x + row * x_stride + j, values[k]);
        } else {
            for (int i = 0; i < SIZE; ++i) values[k][i] = at + i < left ? (float)x[row * x_stride + j + i] : 0.0f;
        }
    }
#pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        const int at = (k * blockDim.x + threadIdx.x) * SIZE;
        if (at >= left) return;
        const unsigned column = (unsigned)beyond + at;
        long long row = start_row + column / N;
        int j = column % N;
#pragma unroll
        for (int i = 0; i < SIZE; ++i, ++j) {
            if (j == N && at + i < left) {
                rows[k].load(dloss, target, lse, ++row, ignore_index, z_loss, first);
                j = 0;
            }
            const Row of = rows[k];
            const float slope = gradient<T>(values[k][i], j, of.whole, of.rest, of.p_factor, of.loss_factor, of.target,
                                            smoothing, classes);
            values[k][i] = of.kept ? slope : 0.0f;
        }
        if (at + SIZE <= left)
            store_floats<SIZE>(dx + at, values[k]);
        else
            for (int i = 0; at + i < left; ++i) dx[at + i] = (T)values[k][i];
    }
}
