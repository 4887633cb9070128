// Level 5: h = x + residual and y = h * rstd * weight in CUDA C, and their backward, for M rows of N columns.
// T is float, __half or __nv_bfloat16; the arithmetic is float. All take M blocks of whole warps, but for `columns`.

#include "norm_columns.cuh"
#include "packs.cuh"
#include "reductions.cuh"

template <typename T>
__global__ void add_rms_norm_warp(const T* x, const T* residual, const T* weight, T* y, T* h, long long x_stride,
                                  long long residual_stride, int N, float eps)
{
    __shared__ float of_warp[32];
    x += blockIdx.x * x_stride;
    residual += blockIdx.x * residual_stride;
    y += (long long)blockIdx.x * N;
    h += (long long)blockIdx.x * N;
    float squares = 0.0f;
    for (int j = threadIdx.x; j < N; j += blockDim.x) {
        float sum = (float)x[j] + (float)residual[j];
        h[j] = (T)sum;
        squares += sum * sum;
    }
    float rstd = rsqrtf(row_sum(squares, of_warp) / N + eps);
    // Added again: the h in memory has been rounded.
    for (int j = threadIdx.x; j < N; j += blockDim.x)
        y[j] = (T)(((float)x[j] + (float)residual[j]) * rstd * (float)weight[j]);
}

// The row of h stays in registers, PACKS packs of SIZE values a thread. The weights are asked for with it: no compiler moves a
// load across a barrier.
template <typename T, int SIZE, int PACKS, int THREADS>
__global__ void __launch_bounds__(THREADS)
    add_rms_norm_kept(const T* x, const T* residual, const T* weight, T* y, T* h, long long x_stride,
                      long long residual_stride, int N, float eps)
{
    __shared__ float of_warp[32];
    x += blockIdx.x * x_stride;
    residual += blockIdx.x * residual_stride;
    y += (long long)blockIdx.x * N;
    h += (long long)blockIdx.x * N;
    Floats<SIZE> sums[PACKS];
    Pack<T, SIZE> weights[PACKS];
    float squares = 0.0f;
    for (int k = 0; k < PACKS; ++k) {
        const int j = (k * THREADS + (int)threadIdx.x) * SIZE;
        if (j >= N) continue;
        sums[k] = load_floats<SIZE>(x + j);
        weights[k] = load_pack<SIZE>(weight + j);
        const Floats<SIZE> more = load_floats<SIZE>(residual + j);
        for (int i = 0; i < SIZE; ++i) {
            sums[k].at[i] += more.at[i];
            squares += sums[k].at[i] * sums[k].at[i];
        }
        store_floats(h + j, sums[k]);
    }
    const float rstd = rsqrtf(row_sum(squares, of_warp) / N + eps);
    for (int k = 0; k < PACKS; ++k) {
        const int j = (k * THREADS + (int)threadIdx.x) * SIZE;
        if (j >= N) continue;
        const Floats<SIZE> scale = widened(weights[k]);
        for (int i = 0; i < SIZE; ++i) sums[k].at[i] *= rstd * scale.at[i];
        store_floats(y + j, sums[k]);
    }
}

template <typename T>
__global__ void add_rms_norm_backward_rows(const T* dy, const T* dh, const T* h, const T* weight, T* dx, T* dresidual,
                                           float2* statistics, long long dy_stride, long long dh_stride,
                                           long long h_stride, int N, float eps)
{
    __shared__ float of_warp[2][32];
    dy += blockIdx.x * dy_stride;
    dh += blockIdx.x * dh_stride;
    h += blockIdx.x * h_stride;
    float squares = 0.0f, products = 0.0f;
    for (int j = threadIdx.x; j < N; j += blockDim.x) {
        squares += (float)h[j] * (float)h[j];
        products += (float)dy[j] * (float)weight[j] * (float)h[j];
    }
    float rstd = rsqrtf(row_sum(squares, of_warp[0]) / N + eps);
    float mean_gn = row_sum(products, of_warp[1]) / N * rstd;
    if (threadIdx.x == 0) statistics[blockIdx.x] = {0.0f, rstd};  // no mean is subtracted
    for (int j = threadIdx.x; j < N; j += blockDim.x) {
        float of_norm = rstd * ((float)dy[j] * (float)weight[j] - (float)h[j] * rstd * mean_gn);
        // Twice: an operator may not return one tensor as two outputs.
        dx[(long long)blockIdx.x * N + j] = dresidual[(long long)blockIdx.x * N + j] = (T)((float)dh[j] + of_norm);
    }
}

template <typename T>
__global__ void add_rms_norm_backward_columns(const T* dy, const T* h, const float2* statistics, float* partial, T* dweight,
                                              T* dbias, long long dy_stride, long long h_stride, long long M, int N)
{
    norm_columns<false>(dy, h, statistics, partial, dweight, dbias, dy_stride, h_stride, M, N);
}
