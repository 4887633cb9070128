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

// 16 bytes to shared memory, zeros if they are not there. By __pipeline_memcpy_async, NVRTC makes two instructions of it.
template <typename T>
__device__ void fetch_vector(T* to, const T* from, bool there)
{
#if !defined(KERNELS_ON_CPU) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(there ? 16 : 0) : "memory");
#else
    __pipeline_memcpy_async(to, from, 16, there ? 0 : 16);
#endif
}

// Tiles of ROWS×COLUMNS elements, each `step` behind the one before, for kernels whose every instruction counts: a thread has
// one vector of every APART-th row, and one address, which moves on.
template <int THREADS, int ROWS, int COLUMNS, bool ALIGNED, typename T>
struct Tiles {
    static constexpr int VECTOR = 16 / sizeof(T), ACROSS = COLUMNS / VECTOR, APART = THREADS / ACROSS;
    static_assert(THREADS % ACROSS == 0 && ROWS % APART == 0, "each thread copies as many vectors");
    const T* next;
    const long long stride, step;
    const int i = threadIdx.x / ACROSS, j = threadIdx.x % ACROSS * VECTOR;

    __device__ Tiles(const T* from, long long stride, long long step) : next(from), stride(stride), step(step)
    {
        if (ALIGNED) next += i * stride + j;
    }

    // As the function `fetch`.
    __device__ void fetch_next(T* tile, int rows, int columns)
    {
        if constexpr (ALIGNED) {
            const int below = j < columns ? rows - i : 0;  // rows from this thread's first on
#pragma unroll
            for (int row = 0; row < ROWS; row += APART)
                fetch_vector(tile + (i + row) * (COLUMNS + PAD) + j, next + row * stride, row < below);
        } else {
            fetch<THREADS, ROWS, COLUMNS, ALIGNED>(tile, next, stride, rows, columns);
        }
        next += step;
    }
};
