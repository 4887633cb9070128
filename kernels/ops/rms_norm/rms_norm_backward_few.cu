// Level 5: RMS norm in CUDA C, backward, for so few rows that all are on the GPU at a time.
// rms_backward_few.cuh says how.

#include "rms_backward_few.cuh"

template <typename T, int SIZE, int PACKS, int ROWS, int LANES>
__global__ void __launch_bounds__(MOST_THREADS, 1)
    rms_norm_backward_few(const T* dy, const T* x, const T* weight, T* dx, T* dweight, float* partial, long long dy_stride,
                          long long x_stride, long long M, int N, float eps)
{
    rms_backward_few<false, SIZE, PACKS, ROWS, LANES>(dy, (const T*)nullptr, x, weight, dx, (T*)nullptr, dweight, partial,
                                                      dy_stride, 0, x_stride, M, N, eps);
}
