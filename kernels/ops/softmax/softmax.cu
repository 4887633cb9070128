// Level 5: softmax in CUDA C: the rungs that read a row value by value, of any width and alignment. For each row of N columns:
//
//     y = exp(x - largest) / sum of exp(x - largest)
//     dx = y * (dy - sum of dy * y)
//
//     softmax_block            one block a row, three passes; the largest value and the sum by a tree in shared memory.
//     softmax_online           both in one pass: each thread for its columns, then joined by shuffles.
//     softmax_backward_warp    two passes; the sum by shuffles.
//
// T is float, __half or __nv_bfloat16; the arithmetic is float. The launch: M blocks.

#include "parts.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// The `join` of the values of all threads, given to every thread. One float of dynamic shared memory a thread.
template <typename Join>
__device__ float block_tree(float value, Join join)
{
    extern __shared__ float partial[];
    partial[threadIdx.x] = value;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] = join(partial[threadIdx.x], partial[threadIdx.x + half]);
        __syncthreads();
    }
    float result = partial[0];
    __syncthreads();  // the next call writes partial[0]: not before everyone has read it
    return result;
}

// A power of two of threads.
template <typename T>
__global__ void softmax_block(const T* x, T* y, long long row_stride, int N)
{
    x += blockIdx.x * row_stride;
    y += (long long)blockIdx.x * N;

    float largest = LOWEST;
    for (int j = threadIdx.x; j < N; j += blockDim.x) largest = fmaxf(largest, (float)x[j]);
    largest = block_tree(largest, [](float a, float b) { return fmaxf(a, b); });

    float sum = 0.0f;
    for (int j = threadIdx.x; j < N; j += blockDim.x) sum += exp_for<T>((float)x[j] - largest);
    sum = block_tree(sum, [](float a, float b) { return a + b; });

    for (int j = threadIdx.x; j < N; j += blockDim.x) y[j] = (T)(exp_for<T>((float)x[j] - largest) / sum);
}

// A multiple of 32 threads. Milakov and Gimelshein 2018, "Online normalizer calculation for softmax".
template <typename T>
__global__ void softmax_online(const T* x, T* y, long long row_stride, int N)
{
    __shared__ Part warp_parts[32];
    x += blockIdx.x * row_stride;
    y += (long long)blockIdx.x * N;

    Part part;
#pragma unroll 4  // values on their way at once
    for (int j = threadIdx.x; j < N; j += blockDim.x) {
        // Either the sum so far or the new value is scaled by exp of how far they are apart, and the other by 1.
        float value = (float)x[j], apart = value - part.largest, e = exp_for<T>(-fabsf(apart));
        part.sum = apart > 0.0f ? part.sum * e + 1.0f : part.sum + e;
        part.largest = fmaxf(part.largest, value);
    }
    part = block_joined(part, warp_parts);
    for (int j = threadIdx.x; j < N; j += blockDim.x) y[j] = (T)(exp_for<T>((float)x[j] - part.largest) / part.sum);
}

// A multiple of 32 threads.
template <typename T>
__global__ void softmax_backward_warp(const T* dy, const T* y, T* dx, long long dy_stride, long long y_stride, int N)
{
    __shared__ float warp_parts[32];
    dy += blockIdx.x * dy_stride;
    y += blockIdx.x * y_stride;
    dx += (long long)blockIdx.x * N;

    float dot = 0.0f;
#pragma unroll 4
    for (int j = threadIdx.x; j < N; j += blockDim.x) dot += (float)dy[j] * (float)y[j];
    dot = block_joined(dot, warp_parts);
    for (int j = threadIdx.x; j < N; j += blockDim.x) dx[j] = (T)((float)y[j] * ((float)dy[j] - dot));
}
