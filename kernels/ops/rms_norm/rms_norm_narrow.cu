// Level 5: RMS norm in CUDA C, forward, for many narrow rows, one behind the other.
//
// By packs as small as odd rows allow, few bytes are on their way. Here a block copies its rows to shared memory and back as whole
// vectors, wherever in them a row ends; in between, a warp or less has a row, value by value.

#include "reductions.cuh"
#include "vector_copy.cuh"

// ceil(M / ROWS) blocks of (THREADS, ROWS) threads, whole warps; THREADS is a power of two up to 32, and ROWS a multiple of
// Vector::SIZE, so that each block's rows start at a multiple of 16 bytes. A thread has VALUES of a row, no more than it asks for.
// ROWS * N values of dynamic shared memory.
template <typename T, int VALUES, int THREADS, int ROWS, bool WEIGHTED>
__global__ void __launch_bounds__(THREADS* ROWS)
    rms_norm_narrow(const T* x, const T* weight, T* y, long long M, int N, float eps)
{
    extern __shared__ uint4 shared[];
    const long long first = (long long)blockIdx.x * ROWS;
    const int rows = min(M - first, (long long)ROWS);
    begin_copy(x + first * N, (T*)shared, rows * N);

    // Sums need all lanes of a warp, also those of rows that are not there. Of a thread's values the last alone may be beyond a row.
    auto column = [](int k) { return k * THREADS + (int)threadIdx.x; };
    auto inside = [&](int k) { return k < VALUES - 1 || column(k) < N; };
    auto present = [&](int k) { return threadIdx.y < rows && inside(k); };
    constexpr bool AHEAD = WEIGHTED && VALUES <= AHEAD_VALUES;
    T weights[AHEAD ? VALUES : 1];
    for (int k = 0; AHEAD && k < VALUES; ++k)
        if (inside(k)) weights[k] = weight[column(k)];
    auto scale = [&](int k) { return (float)(AHEAD ? weights[k] : weight[column(k)]); };
    __pipeline_wait_prior(0);
    __syncthreads();

    T* row = (T*)shared + threadIdx.y * N;
    float values[VALUES] = {}, squares = 0.0f;
    for (int k = 0; k < VALUES; ++k) {
        if (!present(k)) continue;
        values[k] = (float)row[column(k)];
        squares += values[k] * values[k];
    }
    const float rstd = rsqrtf(warp_sum<THREADS>(squares) * __fdividef(1.0f, N) + eps);
    for (int k = 0; k < VALUES; ++k)
        if (present(k)) row[column(k)] = (T)(values[k] * (WEIGHTED ? rstd * scale(k) : rstd));

    __syncthreads();
    copy_vectors((const T*)shared, y + first * N, rows * N);
}
