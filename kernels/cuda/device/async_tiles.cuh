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
    static_assert(ROWS * ACROSS % THREADS == 0, "each thread copies as many vectors");
#pragma unroll
    for (int n = 0; n < ROWS * ACROSS / THREADS; ++n) {
        int at = n * THREADS + threadIdx.x, i = at / ACROSS, j = at % ACROSS * VECTOR;
        T* to = tile + i * (COLUMNS + PAD) + j;
        if constexpr (ALIGNED) {  // beyond the edge nothing is read, and 16 bytes of zeros arrive
            __pipeline_memcpy_async(to, from + i * stride + j, 16, i < rows && j < columns ? 0 : 16);
        } else {
            for (int k = 0; k < VECTOR; ++k) {
                T element = 0.0f;
                if (i < rows && j + k < columns) element = from[i * stride + j + k];
                to[k] = element;
            }
        }
    }
}
