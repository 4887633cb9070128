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

// What the gradient needs of a row: `shift` and `of_p` make exp(x - shift) * of_p the first term.
template <int SIZE, typename T>
__device__ void store_gradient(T* dx, const float (&x)[SIZE], int j, float shift, float correction, float of_p,
                               float scale, long long target, float smoothing, int classes)
{
    float values[SIZE];
    for (int i = 0; i < SIZE; ++i) {
        const float wanted = (j + i == target ? 1.0f - smoothing : 0.0f) + smoothing / classes;
        values[i] = exp_for<T>(x[i] - shift - correction) * of_p - scale * wanted;
    }
    store_floats<SIZE>(dx + j, values);
}

// M blocks of whole warps. One pass gives loss and lse, which may be null; where there is a dx, a second pass gives the gradient
// of the loss, times *scale. dx may be x: each thread reads what it then writes.
template <typename T, int SIZE>
__global__ void cross_entropy_online(const T* x, const long long* target, float* loss, double* lse, const float* scale,
                                     T* dx, long long x_stride, int N, long long ignore_index, float smoothing,
                                     float z_loss)
{
    __shared__ Part of_warp[32];
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
    part = block_joined(part, of_warp);
    const float log_sum = logf(part.sum), whole = part.largest + log_sum;
    if (smoothing > 0.0f) away = row_sum(away, sums);
    if (threadIdx.x == 0) {
        float of_row = log_sum - (1.0f - smoothing) * (at_target - part.largest);
        if (smoothing > 0.0f) of_row -= smoothing * (away / N + (from - part.largest));
        if (z_loss > 0.0f) of_row += z_loss * whole * whole;
        loss[row] = of_row;
        if (lse) lse[row] = (double)part.largest + log_sum;
    }
    if (!dx) return;

    const float of_loss = *scale, of_p = of_loss * (z_loss > 0.0f ? 1.0f + 2.0f * z_loss * whole : 1.0f) / part.sum;
    __syncthreads();  // x[target] and x[0] have been read, should dx be x
    for (int j = threadIdx.x * SIZE; j < N; j += blockDim.x * SIZE) {
        float values[SIZE];
        load_floats<SIZE>(x + j, values);
        store_gradient<SIZE>(dx, values, j, part.largest, 0.0f, of_p, of_loss, wanted, smoothing, N);
    }
}

// x and dx have N columns of the classes, from the first on; dx may be x. (M, parts of rows) blocks: each thread has VECTORS
// times SIZE values, blockDim.x vectors apart.
template <typename T, int SIZE, int VECTORS>
__global__ void cross_entropy_backward(const float* dloss, const T* x, const long long* target, const double* lse, T* dx,
                                       long long x_stride, int N, long long ignore_index, float smoothing, float z_loss,
                                       int first, int classes)
{
    const long long row = blockIdx.x, wanted = target[row];
    const bool kept = wanted != ignore_index;  // else x is not read
    const float of_loss = dloss[row], whole = (float)lse[row], rest = (float)(lse[row] - whole);
    const float of_p = of_loss * (1.0f + 2.0f * z_loss * whole);
    x += row * x_stride;
    dx += row * N;
    for (int k = 0; k < VECTORS; ++k) {
        const int j = ((blockIdx.y * VECTORS + k) * blockDim.x + threadIdx.x) * SIZE;
        if (j >= N) return;
        float values[SIZE] = {};
        if (kept) {
            load_floats<SIZE>(x + j, values);
            store_gradient<SIZE>(dx, values, j, whole, rest, of_p, of_loss, wanted - first, smoothing, classes);
        } else {
            store_floats<SIZE>(dx + j, values);
        }
    }
}
