// Level 5: RMS norm in CUDA C, forward, for many narrow rows, one behind the other, that are no whole vectors.
//
// By packs as small as such rows allow, a warp has one row, and few bytes on their way. Here a block copies its rows to shared
// memory and back as whole vectors, wherever in them a row ends; in between, a few lanes share a row and read it value by value.

#include "reductions.cuh"
#include "vector_copy.cuh"

// ceil(M / ROWS) blocks of (THREADS, ROWS) threads, whole warps; THREADS is a power of two up to 32, and ROWS a multiple of
// Vector::SIZE, so that each block's rows start at a multiple of 16 bytes. ROWS * N values of dynamic shared memory.
template <typename T, int THREADS, int ROWS>
__global__ void __launch_bounds__(THREADS* ROWS)
    rms_norm_narrow(const T* x, const T* weight, T* y, long long M, int N, float eps)
{
    extern __shared__ uint4 shared[];
    const long long first = (long long)blockIdx.x * ROWS;
    const int rows = min(M - first, (long long)ROWS);
    copy_vectors(x + first * N, (T*)shared, rows * N);
    __syncthreads();

    T* row = (T*)shared + threadIdx.y * N;
    const int columns = threadIdx.y < rows ? N : 0;  // sums need all lanes of a warp
    float squares = 0.0f;
    for (int j = threadIdx.x; j < columns; j += THREADS) squares += (float)row[j] * (float)row[j];
    const float rstd = rsqrtf(warp_sum<THREADS>(squares) / N + eps);
    for (int j = threadIdx.x; j < columns; j += THREADS)
        row[j] = (T)((float)row[j] * (weight ? rstd * (float)weight[j] : rstd));

    __syncthreads();
    copy_vectors((const T*)shared, y + first * N, rows * N);
}
