// Level 5: h = x + residual and its RMS norm in CUDA C, forward, for long rows, each divided among several blocks.
// rms_split.cuh says how.

#include "rms_split.cuh"

template <typename T, int SIZE>
__global__ void add_rms_norm_parts(const T* x, const T* residual, T* h, float* parts, long long x_stride,
                                   long long residual_stride, int N)
{
    rms_parts<true, SIZE>(x, residual, h, parts, x_stride, residual_stride, N);
}

template <typename T, int SIZE>
__global__ void add_rms_norm_split(const T* x, const T* residual, const T* weight, T* y, const T* h, const float* parts,
                                   long long x_stride, long long residual_stride, int N, float eps)
{
    // Added again where the h in memory has been rounded.
    constexpr bool ROUNDED = sizeof(T) < sizeof(float);
    rms_split<ROUNDED, SIZE>(ROUNDED ? x : h, residual, weight, y, parts, ROUNDED ? x_stride : N, residual_stride, N, eps);
}
