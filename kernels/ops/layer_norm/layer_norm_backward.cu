// Level 5: layer norm in CUDA C, backward: the rungs that read a row value by value, of any width and alignment.
//
// With normalised rows n_ij = (x_ij - mean_i) * rstd_i and g_ij = dy_ij * weight_j, for each of M rows of N columns:
//
//     dx_ij     = rstd_i * (g_ij - 1/N * sum_k g_ik - n_ij * 1/N * sum_k g_ik n_ik)
//     dweight_j = sum_i dy_ij * n_ij
//     dbias_j   = sum_i dy_ij
//
//     atomics     one block a row; it adds its dy * n and dy to dweight and dbias by atomic operations.
//     partials    dx row by row, then dweight and dbias column by column: each block adds up some rows, alone, and the
//                 kernel of column_sums.cuh adds up the blocks. The order of every sum is fixed.
//
// T is float, __half or __nv_bfloat16; the arithmetic is float. weight, dweight and dbias may be null. A block has a
// multiple of 32 threads.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "norm_columns.cuh"

// The sum of `value` over the warp, given to every lane.
__device__ float warp_sum(float value)
{
    for (int apart = 16; apart > 0; apart /= 2) value += __shfl_xor_sync(0xffffffff, value, apart);
    return value;
}

// The sum of `value` over the block, given to every thread. Each of the sums over a row has a `warp_parts` of its own, so
// that no barrier is needed between reading the one and writing the other.
__device__ float block_sum(float value, float* warp_parts)
{
    value = warp_sum(value);
    int lane = threadIdx.x % 32;
    if (lane == 0) warp_parts[threadIdx.x / 32] = value;
    __syncthreads();
    return warp_sum(lane < blockDim.x / 32 ? warp_parts[lane] : 0.0f);
}

// g of a column. The product is rounded: fused into the subtraction of the mean of g, it would leave its rounding in dx where
// the two are equal.
template <typename T>
__device__ float g_of(const T* dy, const T* weight, int j)
{
    return weight ? __fmul_rn(dy[j], weight[j]) : (float)dy[j];
}

// What dx needs to know of a whole row: the means of g and of g * n are over its columns.
struct Row {
    float mean, rstd, g, gn;
};

template <typename T>
__device__ Row row_of(const T* dy, const T* x, const T* weight, int N, float eps)
{
    __shared__ float warp_parts[4][32];
    float sum = 0.0f;
    for (int j = threadIdx.x; j < N; j += blockDim.x) sum += (float)x[j];
    float mean = block_sum(sum, warp_parts[0]) / N;

    float squares = 0.0f, g_sum = 0.0f, gc_sum = 0.0f;
    for (int j = threadIdx.x; j < N; j += blockDim.x) {
        float centred = (float)x[j] - mean;
        float g = g_of(dy, weight, j);
        squares += centred * centred;
        g_sum += g;
        gc_sum += g * centred;
    }
    float rstd = rsqrtf(block_sum(squares, warp_parts[1]) / N + eps);
    return {mean, rstd, block_sum(g_sum, warp_parts[2]) / N, block_sum(gc_sum, warp_parts[3]) * rstd / N};
}

// M blocks; dweight and dbias are zeros before.
template <typename T>
__global__ void layer_norm_backward_atomics(const T* dy, const T* x, const T* weight, T* dx, float* dweight,
                                            float* dbias, long long dy_stride, long long x_stride, int N, float eps)
{
    dy += blockIdx.x * dy_stride;
    x += blockIdx.x * x_stride;
    dx += (long long)blockIdx.x * N;
    Row row = row_of(dy, x, weight, N, eps);
    for (int j = threadIdx.x; j < N; j += blockDim.x) {
        float n = ((float)x[j] - row.mean) * row.rstd;
        float g = g_of(dy, weight, j);
        dx[j] = (T)(row.rstd * (g - row.g - n * row.gn));
        if (dweight) atomicAdd(&dweight[j], (float)dy[j] * n);
        if (dbias) atomicAdd(&dbias[j], (float)dy[j]);
    }
}

// M blocks: dx, and mean and rstd of each row in statistics, M pairs.
template <typename T>
__global__ void layer_norm_backward_rows(const T* dy, const T* x, const T* weight, T* dx, float2* statistics,
                                         long long dy_stride, long long x_stride, int N, float eps)
{
    dy += blockIdx.x * dy_stride;
    x += blockIdx.x * x_stride;
    dx += (long long)blockIdx.x * N;
    Row row = row_of(dy, x, weight, N, eps);
    if (threadIdx.x == 0) statistics[blockIdx.x] = {row.mean, row.rstd};
    for (int j = threadIdx.x; j < N; j += blockDim.x) {
        float n = ((float)x[j] - row.mean) * row.rstd;
        float g = g_of(dy, weight, j);
        dx[j] = (T)(row.rstd * (g - row.g - n * row.gn));
    }
}

// dweight and dbias, by the blocks and threads that norm_columns.cuh says. partial is G×2×N.
template <typename T>
__global__ void layer_norm_backward_columns(const T* dy, const T* x, const float2* statistics, float* partial, T* dweight,
                                            T* dbias, long long dy_stride, long long x_stride, long long M, int N)
{
    norm_columns<true>(dy, x, statistics, partial, dweight, dbias, dy_stride, x_stride, M, N);
}
