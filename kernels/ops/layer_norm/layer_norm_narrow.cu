// Level 5: layer norm in CUDA C, forward, for many rows, one behind the other, that are no whole vectors.
//
// By packs as small as such rows allow, few bytes are on their way. Here a block copies its rows to shared memory and back as
// whole vectors, wherever in them a row ends; in between, a warp or less has a row, value by value.

#include "reductions.cuh"
#include "vector_copy.cuh"

// ceil(M / ROWS) blocks of (THREADS, ROWS) threads, whole warps; THREADS is a power of two up to 32, and ROWS a multiple of
// Vector::SIZE, so that each block's rows start at a multiple of 16 bytes. A thread has VALUES of a row, no more than it asks for.
// ROWS * N values of dynamic shared memory.
template <typename T, int VALUES, int THREADS, int ROWS, bool WEIGHT, bool BIAS>
__global__ void __launch_bounds__(THREADS* ROWS)
    layer_norm_narrow(const T* x, const T* weight, const T* bias, T* y, long long M, int N, float eps)
{
    extern __shared__ uint4 shared[];
    const long long first = (long long)blockIdx.x * ROWS;
    const int rows = min(M - first, (long long)ROWS);
    begin_copy(x + first * N, (T*)shared, rows * N);

    // Sums need all lanes of a warp, also those of rows that are not there. Of a thread's values the last alone may be beyond a row.
    auto column = [](int k) { return k * THREADS + (int)threadIdx.x; };
    auto inside = [&](int k) { return k < VALUES - 1 || column(k) < N; };
    auto present = [&](int k) { return threadIdx.y < rows && inside(k); };
    constexpr bool AHEAD = VALUES <= AHEAD_VALUES;
    T weights[AHEAD ? VALUES : 1], biases[AHEAD ? VALUES : 1];
    for (int k = 0; AHEAD && k < VALUES; ++k) {
        if (WEIGHT && inside(k)) weights[k] = weight[column(k)];
        if (BIAS && inside(k)) biases[k] = bias[column(k)];
    }
    __pipeline_wait_prior(0);
    __syncthreads();

    T* row = (T*)shared + threadIdx.y * N;
    const float share = __fdividef(1.0f, N);  // no division waits for a sum
    float values[VALUES] = {}, sum = 0.0f, rests = 0.0f, squares = 0.0f;
    for (int k = 0; k < VALUES; ++k)
        if (present(k)) sum += values[k] = (float)row[column(k)];
    const float near = warp_sum<THREADS>(sum) * share;
    // The mean, rounded: what it is off, which a mean far from 0 makes large, is the mean of what is left.
    for (int k = 0; k < VALUES; ++k) {
        if (!present(k)) continue;
        values[k] -= near;
        rests += values[k];
        squares += values[k] * values[k];
    }
    rests = warp_sum<THREADS>(rests);
    const float rest = rests * share;
    const float rstd = rstd_of((warp_sum<THREADS>(squares) - rests * rest) * share, eps);
    for (int k = 0; k < VALUES; ++k) {
        if (!present(k)) continue;
        const float scale = WEIGHT ? (float)(AHEAD ? weights[k] : weight[column(k)]) : 1.0f;
        const float shift = BIAS ? (float)(AHEAD ? biases[k] : bias[column(k)]) : 0.0f;
        row[column(k)] = (T)((values[k] - rest) * rstd * scale + shift);
    }

    __syncthreads();
    copy_vectors((const T*)shared, y + first * N, rows * N);
}
