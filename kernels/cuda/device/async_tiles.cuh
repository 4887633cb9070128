// Tiles of a matrix in shared memory, by asynchronous copies, for wmma's fragments.
#pragma once

#include <cuda_pipeline_primitives.h>

constexpr int PAD = 8;  // elements of a half type: the rows of a tile start in different banks, and at whole vectors

// Starts to copy ROWS×COLUMNS elements into a tile, with zeros beyond the `rows` and `columns` that there are, by a block of
// THREADS. ALIGNED: every row is whole 16-byte vectors from its start.
template <int THREADS, int ROWS, int COLUMNS, bool ALIGNED, typename T>
__device__ void fetch(T* tile, const T* from, long long stride, int rows, int columns)
{
    constexpr int VECTOR = 16 / sizeof(T), ACROSS = COLUMNS / VECTOR;
    for (int at = threadIdx.x; at < ROWS * ACROSS; at += THREADS) {
        int i = at / ACROSS, j = at % ACROSS * VECTOR;
        T* to = tile + i * (COLUMNS + PAD) + j;
        if (ALIGNED && i < rows && j < columns) {
            __pipeline_memcpy_async(to, from + i * stride + j, 16);
        } else {
            for (int k = 0; k < VECTOR; ++k) {
                T element = 0.0f;
                if (i < rows && j + k < columns) element = from[i * stride + j + k];
                to[k] = element;
            }
        }
    }
}

// The same for kernels that have registers for the addresses of all copies of a thread at once.
template <int THREADS, int ROWS, int COLUMNS, bool ALIGNED, typename T>
__device__ void fetch_at_once(T* tile, const T* from, long long stride, int rows, int columns)
{
    constexpr int VECTOR = 16 / sizeof(T), ACROSS = COLUMNS / VECTOR;
    static_assert(ROWS * ACROSS % THREADS == 0, "each thread copies as many vectors");
    if constexpr (ALIGNED) {
#pragma unroll
        for (int n = 0; n < ROWS * ACROSS / THREADS; ++n) {
            int at = n * THREADS + threadIdx.x, i = at / ACROSS, j = at % ACROSS * VECTOR;
            const int zeros = i < rows && j < columns ? 0 : 16;  // 16: nothing is read
            __pipeline_memcpy_async(tile + i * (COLUMNS + PAD) + j, from + i * stride + j, 16, zeros);
        }
    } else {
        fetch<THREADS, ROWS, COLUMNS, ALIGNED>(tile, from, stride, rows, columns);
    }
}
