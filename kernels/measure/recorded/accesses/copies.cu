// Copies of n elements that differ only in which thread takes which element, and how many bytes at once.

#include <cuda_fp16.h>

// y = x, a thread an element.
__global__ void guarded(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}

// y[i] = x[i * stride]: neighbouring threads read values that are `stride` apart.
__global__ void strided(const float* x, float* y, int stride, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[(long long)i * stride];
}

// y[i] = x[i + offset]: neighbours again, but a warp's 128 bytes need not start where a sector does.
__global__ void offset(const float* x, float* y, int offset, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i + offset];
}

// Each thread copies `items` neighbouring elements,
// so that neighbouring threads are `items` apart.
__global__ void stretches(const float* x, float* y, int items, int n)
{
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * items;
#pragma unroll 1
    for (int i = first; i < first + items && i < n; ++i) {
        y[i] = x[i];
    }
}

// A grid of any size: each thread takes every (threads of the grid)-th element,
// one load in flight at a time.
template <typename T>
__global__ void copy(const T* x, T* y, int n)
{
#pragma unroll 1
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * blockDim.x) {
        y[i] = x[i];
    }
}
