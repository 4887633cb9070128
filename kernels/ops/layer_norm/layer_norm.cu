// Level 5: layer norm in CUDA C, forward.
//
// Rungs, plain to best:
//     block    one block a row; two sums over the row by a tree in shared memory.
//
// T is float, __half or __nv_bfloat16; the arithmetic is float. The launch: M blocks, a power of two of threads,
// one float of dynamic shared memory a thread.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// The sum of `value` over the threads of the block, given to every thread.
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

// y = (x - mean) / sqrt(variance + eps) * weight + bias for one row of N columns; weight and bias may be null.
template <typename T>
__global__ void layer_norm(const T* x, const T* weight, const T* bias, T* y, long long row_stride, int N, float eps)
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
