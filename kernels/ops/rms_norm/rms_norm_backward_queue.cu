// Level 5: RMS norm in CUDA C, backward: the rungs that read dy and x once.
// rms_backward.cuh says how.

#include "rms_backward.cuh"

template <typename T, int VECTORS, int THREADS, int ROWS, int STAGES, int BLOCKS, bool FULL, bool PEELED = false>
__global__ void CLUSTER_DIMS __launch_bounds__(THREADS* ROWS, BLOCKS)
    rms_norm_backward_queue(const T* dy, const T* x, const T* weight, T* dx, float* partial, long long dy_stride,
                            long long x_stride, long long M, int N, float eps)
{
    rms_backward<false, VECTORS, THREADS, ROWS, STAGES, FULL, PEELED>(dy, (const T*)nullptr, x, weight, dx, (T*)nullptr,
                                                                      partial, dy_stride, 0, x_stride, M, N, eps);
}
