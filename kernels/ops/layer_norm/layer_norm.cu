// Level 5: layer norm in CUDA C, forward: the rungs that read a row value by value, of any width and alignment.
//
//     y = (x - mean) / sqrt(variance + eps) * weight + bias      for each row of N columns
//
//     block    one block a row; each sum over the row by a tree in shared memory.
//     warp     sums by shuffles within each warp; shared memory only between warps.
//
// T is float, __half or __nv_bfloat16; the arithmetic is float. weight and bias may be null. The launch: M blocks.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// ---------------------------------------------------------------------------------------------------------- block

// The sum of `value` over the threads of the block, given to every thread. One float of dynamic shared memory a thread.
__device__ float block_sum(float value)
{
    extern __shared__ float partial[];
    partial[threadIdx.x] = value;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    float total = partial[0];
    __syncthreads();  // the next call writes partial[0]: not before everyone has read it
    return total;
}

// A power of two of threads.
template <typename T>
__global__ void layer_norm_block(const T* x, const T* weight, const T* bias, T* y, long long row_stride, int N,
                                 float eps)
{
    x += blockIdx.x * row_stride;
    y += (long long)blockIdx.x * N;

    float sum = 0.0f;
    for (int j = threadIdx.x; j < N; j += blockDim.x) sum += (float)x[j];
    float mean = block_sum(sum) / N;

    float squares = 0.0f;
    for (int j = threadIdx.x; j < N; j += blockDim.x) {
        float centred = (float)x[j] - mean;
        squares += centred * centred;
    }
    float rstd = rsqrtf(block_sum(squares) / N + eps);

    for (int j = threadIdx.x; j < N; j += blockDim.x) {
        float value = ((float)x[j] - mean) * rstd;
        if (weight) value *= (float)weight[j];
        if (bias) value += (float)bias[j];
        y[j] = (T)value;
    }
}

// ----------------------------------------------------------------------------------------------------------- warp

// The sum of `value` over the warp, given to every lane: after step k, each lane holds the sum of 2^k lanes.
__device__ float warp_sum(float value)
{
    for (int apart = 16; apart > 0; apart /= 2) value += __shfl_xor_sync(0xffffffff, value, apart);
    return value;
}

// The sum of `value` over the blockDim.x threads that share a row, given to each. A second sum takes another `warp_parts`,
// so that no barrier is needed between reading the one and writing the other.
__device__ float row_sum(float value, float* warp_parts)
{
    value = warp_sum(value);
    if (blockDim.x == 32) return value;
    int lane = threadIdx.x % 32;
    if (lane == 0) warp_parts[threadIdx.x / 32] = value;
    __syncthreads();
    return warp_sum(lane < blockDim.x / 32 ? warp_parts[lane] : 0.0f);
}

// A multiple of 32 threads.
template <typename T>
__global__ void layer_norm_warp(const T* x, const T* weight, const T* bias, T* y, long long row_stride, int N,
                                float eps)
{
    __shared__ float warp_parts[2][32];
    x += blockIdx.x * row_stride;
    y += (long long)blockIdx.x * N;

    float sum = 0.0f;
    for (int j = threadIdx.x; j < N; j += blockDim.x) sum += (float)x[j];
    float mean = row_sum(sum, warp_parts[0]) / N;

    float squares = 0.0f;
    for (int j = threadIdx.x; j < N; j += blockDim.x) {
        float centred = (float)x[j] - mean;
        squares += centred * centred;
    }
    float rstd = rsqrtf(row_sum(squares, warp_parts[1]) / N + eps);

    for (int j = threadIdx.x; j < N; j += blockDim.x) {
        float value = ((float)x[j] - mean) * rstd;
        if (weight) value *= (float)weight[j];
        if (bias) value += (float)bias[j];
        y[j] = (T)value;
    }
}
