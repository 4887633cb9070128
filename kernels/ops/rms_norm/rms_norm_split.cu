// Level 5: RMS norm in CUDA C, forward, for few long rows, each divided among several blocks. rms_split.cuh says how.

#include "rms_split.cuh"

template <typename T, int SIZE>
__global__ void rms_norm_parts(const T* x, float* parts, long long x_stride, int N)
{
    rms_parts<false, SIZE, T>(x, nullptr, nullptr, parts, x_stride, 0, N);
}

template <typename T, int SIZE>
__global__ void rms_norm_split(const T* x, const T* weight, T* y, const float* parts, long long x_stride, int N, float eps)
{
    rms_split<false, SIZE, T>(x, nullptr, weight, y, parts, x_stride, 0, N, eps);
}
