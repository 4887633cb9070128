// Level 5: cross-entropy in CUDA C, forward and backward, for M rows of N columns. For each row with a target that is not
// ignored:
//
//     loss = lse - (1 - smoothing) * x[target] - smoothing * mean of x + z_loss * lse^2
//     dx = dloss * (exp(x - lse) * (1 + 2 * z_loss * lse) - (1 - smoothing) * [j = target] - smoothing / N)
//
// T is float, __half or __nv_bfloat16; the arithmetic is float, but lse is a double: of a float the gradient of large logits
// would have few right bits. SIZE values, a pack, are read at once: as many as one instruction can where rows lie so.

#include "packs.cuh"
#include "parts.cuh"

#include <assert.h>

// What the gradient needs of a row: exp(x - shift - rest) * p_factor is its first term, of which the others are subtracted.
struct alignas(8) Row {
    float shift, rest, p_factor, of_target, of_others;
    int target;  // BEYOND if it is none of the columns, IGNORED if the row is
    enum { BEYOND = -1, IGNORED = -2 };
};

// The gradients of a row's logits from column j on; of a row that is not kept, zeros.
template <typename T, int SIZE>
__device__ Floats<SIZE> gradients(Floats<SIZE> x, Row row, int j)
{
    if (row.target == Row::IGNORED) return {};
    const int at = row.target - j;
#pragma unroll
    for (int i = 0; i < SIZE; ++i) {
        const float other = i == at ? row.of_target : row.of_others;
        x.at[i] = exp_for<T>(x.at[i] - row.shift - row.rest) * row.p_factor - other;
    }
    return x;
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
        for (int j = threadIdx.x * SIZE; dx && j < N; j += blockDim.x * SIZE) store_floats(dx + j, Floats<SIZE>{});
        return;
    }
    assert(0 <= wanted && wanted < N && "target");
    const float at_target = (float)x[wanted], first = (float)x[0], from = fabsf(first) < INFINITY ? first : 0.0f;

    Part part;
    float away = 0.0f;  // the sum of the logits, by how far they are from the first: a mean far from 0 would cost bits
#pragma unroll 4  // vectors on their way at once
    for (int j = threadIdx.x * SIZE; j < N; j += blockDim.x * SIZE) {
        const Floats<SIZE> values = load_floats<SIZE>(x + j);
        float largest = part.largest;
        for (int i = 0; i < SIZE; ++i) largest = fmaxf(largest, values.at[i]);
        part.sum *= exp_for<T>(part.largest - largest);
        part.largest = largest;
        for (int i = 0; i < SIZE; ++i) {
            part.sum += exp_for<T>(values.at[i] - largest);
            away += values.at[i] - from;
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

    const float factor = *scale, evenly = smoothing / N;
    const float p_factor = factor * (z_loss > 0.0f ? 1.0f + 2.0f * z_loss * whole : 1.0f) / part.sum;
    const Row of = {part.largest, 0.0f, p_factor, factor * (1.0f - smoothing + evenly), factor * evenly, (int)wanted};
    __syncthreads();  // x[target] and x[0] have been read, should dx be x
    for (int j = threadIdx.x * SIZE; j < N; j += blockDim.x * SIZE)
        store_floats(dx + j, gradients<T>(load_floats<SIZE>(x + j), of, j));
}

// x and dx have N columns of the classes, from the first on; dx may be x. `evenly` is smoothing / classes. The M * N values are
// divided as if they were one row: a thread has PACKS packs of SIZE of them, blockDim.x packs apart, and a pack may have the
// end of a row and the start of the next, unless x_stride is not N. SIZE is at most N. The dynamic shared memory has a Row for
// each row of the block.
template <typename T, int SIZE, int PACKS>
__global__ void cross_entropy_backward(const float* dloss, const T* x, const long long* targets, const double* lse, T* dx,
                                       long long x_stride, long long M, int N, long long ignore_index, float smoothing,
                                       float evenly, float z_loss, int first)
{
    extern __shared__ Row rows[];
    const int most = blockDim.x * SIZE * PACKS;
    const long long start = (long long)blockIdx.x * most, start_row = start / N;
    const unsigned beyond = (unsigned)(start - start_row * N);
    const int count = (int)min((long long)most, M * N - start), row_count = (beyond + count - 1) / N + 1;
    Pack<T, SIZE> packs[PACKS] = {};
    auto load_packs = [&] {
#pragma unroll
        for (int k = 0; k < PACKS; ++k) {
            const int at = (k * blockDim.x + threadIdx.x) * SIZE;
            if (at >= count) return;
            const int row = (beyond + at) / N, j = (beyond + at) % N;
            const T* from = x + (start_row + row) * x_stride + j;
            if (at + SIZE > count) {
#pragma unroll
                for (int i = 0; i < SIZE; ++i)
                    if (at + i < count) packs[k].at[i] = from[i];
            } else if (PACKS == 1 || rows[row].target != Row::IGNORED || j + SIZE > N) {
                packs[k] = load_pack<SIZE>(from);
            }
        }
    };
    // Of a row that is not kept x is not read, unless that would keep a thread's only load waiting.
    if (PACKS == 1) load_packs();
    for (int r = threadIdx.x; r < row_count; r += blockDim.x) {
        const long long target = targets[start_row + r];
        const double exact = lse[start_row + r];
        const float factor = dloss[start_row + r], shift = (float)exact;
        const bool here = first <= target && target < (long long)first + N;
        const int column = target == ignore_index ? Row::IGNORED : here ? (int)(target - first) : Row::BEYOND;
        rows[r] = {shift, (float)(exact - shift), factor * (1.0f + 2.0f * z_loss * shift),
                   factor * (1.0f - smoothing + evenly), factor * evenly, column};
    }
    __syncthreads();
    if (PACKS > 1) load_packs();
#pragma unroll
    for (int k = 0; k < PACKS; ++k) {
        const int at = (k * blockDim.x + threadIdx.x) * SIZE;
        if (at >= count) return;
        const int row = (beyond + at) / N, j = (beyond + at) % N, next = N - j;  // where in the pack the next row starts
        const Floats<SIZE> values = widened(packs[k]);
        Floats<SIZE> slopes = gradients<T>(values, rows[row], j);
        if (next < SIZE && row + 1 < row_count) {
            const Floats<SIZE> others = gradients<T>(values, rows[row + 1], -next);
#pragma unroll
            for (int i = 0; i < SIZE; ++i)
                if (i >= next) slopes.at[i] = others.at[i];
        }
        T* to = dx + start + at;
        if (at + SIZE <= count) {
            store_floats(to, slopes);
        } else {
#pragma unroll
            for (int i = 0; i < SIZE; ++i)
                if (at + i < count) to[i] = (T)slopes.at[i];
        }
    }
}
