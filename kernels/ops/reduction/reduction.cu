// Level 5: sums, means and largest values of rows or of columns in CUDA C, and their backward, for an M×N matrix.
// T is float, __half or __nv_bfloat16; the arithmetic is float.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "known.cuh"

// Blocks of (32, rows) threads. Without FIRST a block has one row, along which all threads go; with FIRST it has 32 columns, down
// which its threads go: neighbouring lanes read neighbouring columns either way. y is the sum times scale.
template <typename T, bool MAX, bool FIRST>
__global__ void reduction(const T* x, T* y, long long* index, long long x_stride, int M, int N, float scale)
{
    __shared__ Known thread_parts[32][33];
    const int lane = threadIdx.x, count = FIRST ? M : N;
    const int step = FIRST ? blockDim.y : 32 * blockDim.y, column = blockIdx.x * 32 + lane;
    x += FIRST ? column : blockIdx.x * x_stride;
    Known known = nothing<MAX>();
    if (!FIRST || column < N)
        for (int k = FIRST ? threadIdx.y : threadIdx.y * 32 + lane; k < count; k += step)
            known = both<MAX>(known, {(float)x[FIRST ? k * x_stride : k], k});
    thread_parts[threadIdx.y][lane] = known;
    __syncthreads();
    if (threadIdx.y > 0) return;
    for (int other = 1; other < blockDim.y; ++other) known = both<MAX>(known, thread_parts[other][lane]);
    if constexpr (!FIRST)
        for (int apart = 16; apart > 0; apart /= 2)
            known = both<MAX>(known, {__shfl_down_sync(0xffffffff, known.value, apart),
                                      __shfl_down_sync(0xffffffff, known.at, apart)});
    const long long to = FIRST ? column : blockIdx.x;
    if (FIRST ? column >= N : lane > 0) return;
    give<MAX>(known, y, index, to, scale);
}

// Blocks (row, part): dx is dy times scale; of a largest value, at its place alone.
template <typename T, bool MAX, bool FIRST>
__global__ void reduction_backward(const T* dy, const long long* index, T* dx, int N, float scale)
{
    const int row = blockIdx.x, column = blockIdx.y * blockDim.x + threadIdx.x;
    if (column >= N) return;
    const int from = FIRST ? column : row, place = FIRST ? row : column;
    const float value = (float)dy[from] * scale;
    dx[(long long)row * N + column] = (T)(MAX && index[from] != place ? 0.0f : value);
}
