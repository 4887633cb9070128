// Copies: every width, stride and offset, one read and one write a thread.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// y[i] = x[i] for n elements of any type; 16-byte types read and write 16 bytes a lane.
template <typename T>
__global__ void copy(const T* x, T* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i];
    }
}

// y[i] = x[i * stride].
template <typename T>
__global__ void strided_read(const T* x, T* y, int stride, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i * stride];
    }
}

// y[i * stride] = x[i].
template <typename T>
__global__ void strided_write(const T* x, T* y, int stride, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i * stride] = x[i];
    }
}

// y = x backwards.
__global__ void reversed(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float value = x[n - 1 - i];
        y[i] = value;
    }
}

// Each group of `lanes` neighbouring threads reads one element.
template <typename T>
__global__ void shared_by(const T* x, T* y, int lanes, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[i / lanes];
    }
}

// A grid of any size: each thread takes every (threads of the grid)-th element.
__global__ void grid_stride(const float* x, float* y, int n)
{
#pragma unroll 1
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float value = x[i];
        y[i] = 2.0f * value;
    }
}

// Each thread copies `items` neighbouring elements: the lanes of a warp are `items` apart.
__global__ void thread_contiguous(const float* x, float* y, int items, int n)
{
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * items;
#pragma unroll 1
    for (int i = first; i < first + items && i < n; ++i) {
        float value = x[i];
        y[i] = value;
    }
}

// The read-only path: restrict and __ldg.
__global__ void read_only(const float* __restrict__ x, const float* __restrict__ table, float* __restrict__ y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float value = __ldg(x + i);
        float scale = table[i % 8];
        y[i] = scale * value;
    }
}

// Every second float4 of a row, by lanes in reverse order within each group of four.
__global__ void float4_shuffled(const float4* x, float4* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = x[2 * (i ^ 3)];
    }
}
