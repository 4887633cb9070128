// Level 5: RMS norm of a sum in CUDA C, backward, for so few rows that all are on the GPU at a time.
// rms_backward_few.cuh says how.

#include "rms_backward_few.cuh"

template <typename T, int SIZE, int PACKS, int ROWS, int LANES>
__global__ void __launch_bounds__(MOST_THREADS, 1)
    add_rms_norm_backward_few(const T* dy, const T* dh, const T* h, const T* weight, T* dx, T* dresidual, T* dweight,
                              float* partial, long long dy_stride, long long dh_stride, long long h_stride, long long M, int N,
                              float eps)
{
    rms_backward_few<true, SIZE, PACKS, ROWS, LANES>(dy, dh, h, weight, dx, dresidual, dweight, partial, dy_stride, dh_stride,
                                                     h_stride, M, N, eps);
}
