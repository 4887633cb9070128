// Level 5: h = x + residual and its RMS norm in CUDA C, backward: the rungs that read dy, dh and h once.
// rms_backward.cuh says how.

#include "rms_backward.cuh"

template <typename T, int VECTORS, int THREADS, int ROWS, int STAGES, int BLOCKS, bool FULL, bool PEELED = false>
__global__ void CLUSTER_DIMS __launch_bounds__(THREADS* ROWS, BLOCKS)
    add_rms_norm_backward_queue(const T* dy, const T* dh, const T* h, const T* weight, T* dx, T* dresidual, float* partial,
                                long long dy_stride, long long dh_stride, long long h_stride, long long M, int N, float eps)
{
    rms_backward<true, VECTORS, THREADS, ROWS, STAGES, FULL, PEELED>(dy, dh, h, weight, dx, dresidual, partial, dy_stride,
                                                                     dh_stride, h_stride, M, N, eps);
}
