// Level 5: h = x + residual and y = h * rstd * weight in CUDA C, and their backward, for M rows of N columns.
// T is float, __half or __nv_bfloat16; the arithmetic is float. All take M blocks of whole warps, but for `kept` and `columns`.

#include "norm_columns.cuh"
#include "packs.cuh"
#include "reductions.cuh"
#include "rms_row.cuh"

template <typename T>
__global__ void add_rms_norm_warp(const T* x, const T* residual, const T* weight, T* y, T* h, long long x_stride,
                                  long long residual_stride, int N, float eps)
{
    __shared__ float warp_parts[32];
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
    float rstd = rsqrtf(row_sum(squares, warp_parts) / N + eps);
    // Added again: the h in memory has been rounded.
    for (int j = threadIdx.x; j < N; j += blockDim.x)
        y[j] = (T)(((float)x[j] + (float)residual[j]) * rstd * (float)weight[j]);
}

// The row of h stays in registers, PACKS packs of SIZE values a thread. No compiler moves a load across a store or a barrier, so
// x and residual are asked for before the first value of h is stored. The weights are asked for with them where they have room
// beside them; of a wide row they are asked for after the sum. ceil(M / ROWS) blocks of (THREADS, ROWS) threads, whole warps;
// ROWS is 1 if THREADS is more than 32.
template <typename T, int SIZE, int PACKS, int THREADS, int ROWS>
__global__ void __launch_bounds__(THREADS* ROWS)
    add_rms_norm_kept(const T* x, const T* residual, const T* weight, T* y, T* h, long long x_stride,
                      long long residual_stride, long long M, int N, float eps)
{
    __shared__ float warp_parts[32];
    const long long i = (long long)blockIdx.x * ROWS + threadIdx.y;
    x += i * x_stride;
    residual += i * residual_stride;
    y += i * N;
    h += i * N;
    auto column = [](int k) { return (k * THREADS + (int)threadIdx.x) * SIZE; };
    // The rows of a warp go on together, whether or not the last of them are there: sums need all of its lanes. Of a thread's packs
    // the last alone may be beyond a row.
    auto present = [&](int k) { return (ROWS == 1 || i < M) && (k < PACKS - 1 || column(k) < N); };
    constexpr bool WITH_ROW = PACKS * SIZE <= 16;
    Floats<SIZE> sums[PACKS];
    Pack<T, SIZE> xs[PACKS], residuals[PACKS], weights[PACKS];
    for (int k = 0; k < PACKS; ++k) {
        if (!present(k)) continue;
        xs[k] = load_pack<SIZE>(x + column(k));
        residuals[k] = load_pack<SIZE>(residual + column(k));
        if (WITH_ROW) weights[k] = load_pack<SIZE>(weight + column(k));
    }
    const float share = __fdividef(1.0f, N);  // no division waits for a sum
    float squares = 0.0f;
    for (int k = 0; k < PACKS; ++k) {
        const int j = column(k);
        if (!present(k)) continue;
        sums[k] = widened(xs[k]);
        const Floats<SIZE> more = widened(residuals[k]);
        for (int i = 0; i < SIZE; ++i) {
            sums[k].at[i] += more.at[i];
            squares += sums[k].at[i] * sums[k].at[i];
        }
        store_floats(h + j, sums[k]);
    }
    const float rstd = rsqrtf(row_sum<THREADS>(squares, warp_parts) * share + eps);
    for (int k = 0; k < PACKS; ++k)
        if (!WITH_ROW && present(k)) weights[k] = load_pack<SIZE>(weight + column(k));
    for (int k = 0; k < PACKS; ++k) {
        const int j = column(k);
        if (!present(k)) continue;
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
    __shared__ float warp_parts[2][32];
    dy += blockIdx.x * dy_stride;
    dh += blockIdx.x * dh_stride;
    h += blockIdx.x * h_stride;
    float squares = 0.0f, products = 0.0f;
    for (int j = threadIdx.x; j < N; j += blockDim.x) {
        squares += (float)h[j] * (float)h[j];
        products += (float)dy[j] * (float)weight[j] * (float)h[j];
    }
    const RmsRow common(row_sum(squares, warp_parts[0]) / N, row_sum(products, warp_parts[1]) / N, N, eps);
    if (threadIdx.x == 0) statistics[blockIdx.x] = {0.0f, common.rstd};  // no mean is subtracted
    for (int j = threadIdx.x; j < N; j += blockDim.x) {
        const float n = (float)h[j] * common.rstd;
        const float norm_gradient = common.scale * ((float)dy[j] * (float)weight[j] - n * common.gn);
        // Twice: an operator may not return one tensor as two outputs.
        dx[(long long)blockIdx.x * N + j] = dresidual[(long long)blockIdx.x * N + j] = (T)((float)dh[j] + norm_gradient);
    }
}

template <typename T>
__global__ void add_rms_norm_backward_columns(const T* dy, const T* h, const float2* statistics, float* partial, T* dweight,
                                              T* dbias, long long dy_stride, long long h_stride, long long M, int N)
{
    norm_columns<false>(dy, h, statistics, partial, dweight, dbias, dy_stride, h_stride, M, N);
}
