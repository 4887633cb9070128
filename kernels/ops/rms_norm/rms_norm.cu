// Level 5: RMS norm in CUDA C, y = x * rstd * weight, and its backward by rows, for M rows of N columns.
// Rows are whole packs of SIZE values. A thread takes packs threadIdx.x + k * blockDim.x of a row.

#include "norm_columns.cuh"
#include "packs.cuh"
#include "reductions.cuh"
#include "rms_row.cuh"

template <int SIZE>
__device__ float squares_of(Floats<SIZE> row)
{
    float squares = 0.0f;
    for (int k = 0; k < SIZE; ++k) squares += row.at[k] * row.at[k];
    return squares;
}

template <int SIZE, typename T>
__device__ void put_normalised(T* y, Floats<SIZE> row, bool weighted, Pack<T, SIZE> packed_weights, int j, float rstd)
{
    const Floats<SIZE> weights = widened(packed_weights);
    for (int k = 0; k < SIZE; ++k) row.at[k] *= weighted ? rstd * weights.at[k] : rstd;
    store_floats(y + j, row);
}

// A block a row, which reads it twice: the second time from the cache, where rows are not too wide.
template <typename T, int SIZE>
__global__ void rms_norm_reread(const T* x, const T* weight, T* y, long long x_stride, int N, float eps)
{
    __shared__ float warp_parts[32];
    x += blockIdx.x * x_stride;
    y += (long long)blockIdx.x * N;
    float squares = 0.0f;
#pragma unroll 4  // loads on their way at once
    for (int j = threadIdx.x * SIZE; j < N; j += blockDim.x * SIZE) squares += squares_of(load_floats<SIZE>(x + j));
    float rstd = rsqrtf(row_sum(squares, warp_parts) / N + eps);
#pragma unroll 4
    for (int j = threadIdx.x * SIZE; j < N; j += blockDim.x * SIZE) {
        Pack<T, SIZE> weights = {};
        if (weight) weights = load_pack<SIZE>(weight + j);
        put_normalised(y, load_floats<SIZE>(x + j), weight, weights, j, rstd);
    }
}

// The row stays in registers, PACKS packs a thread. ceil(M / ROWS) blocks of (THREADS, ROWS) threads, whole warps; ROWS is 1 if
// THREADS is more than 32. All weights are asked for before the first value is stored, since no compiler moves a load across a
// store, nor across a barrier: where there are FEW rows, nothing hides a wait, so they are asked for with the row. WEIGHTED: there
// is a weight; a branch that asks for it would keep the next load waiting.
template <typename T, int SIZE, int PACKS, int THREADS, int ROWS, bool FEW, bool WEIGHTED>
__global__ void __launch_bounds__(THREADS* ROWS)
    rms_norm_kept(const T* x, const T* weight, T* y, long long x_stride, long long M, int N, float eps)
{
    __shared__ float warp_parts[32];
    const long long i = (long long)blockIdx.x * ROWS + threadIdx.y;
    x += i * x_stride;
    y += i * N;
    auto column = [](int k) { return (k * THREADS + (int)threadIdx.x) * SIZE; };
    // The rows of a warp go on together, whether or not the last of them are there: sums need all of its lanes. Of a thread's packs
    // the last alone may be beyond a row.
    auto present = [&](int k) { return (ROWS == 1 || i < M) && (k < PACKS - 1 || column(k) < N); };
    Pack<T, SIZE> row[PACKS], weights[PACKS] = {};
    for (int k = 0; k < PACKS; ++k) {
        int j = column(k);
        if (!present(k)) continue;
        row[k] = load_pack<SIZE>(x + j);
        if (FEW && WEIGHTED) weights[k] = load_pack<SIZE>(weight + j);
    }
    const float share = __fdividef(1.0f, N);  // no division waits for a sum
    float squares = 0.0f;
    for (int k = 0; k < PACKS; ++k)
        if (present(k)) squares += squares_of(widened(row[k]));
    float rstd = rsqrtf(row_sum<THREADS>(squares, warp_parts) * share + eps);
    for (int k = 0; k < PACKS; ++k)
        if (!FEW && WEIGHTED && present(k)) weights[k] = load_pack<SIZE>(weight + column(k));
    for (int k = 0; k < PACKS; ++k)
        if (present(k)) put_normalised(y, widened(row[k]), WEIGHTED, weights[k], column(k), rstd);
}

// dx, a block a row, and (0, rstd) of each row for dweight: no mean is subtracted.
template <typename T, int SIZE>
__global__ void rms_norm_backward_rows(const T* dy, const T* x, const T* weight, T* dx, float2* statistics,
                                       long long dy_stride, long long x_stride, int N, float eps)
{
    __shared__ float warp_parts[2][32];
    dy += blockIdx.x * dy_stride;
    x += blockIdx.x * x_stride;
    dx += (long long)blockIdx.x * N;
    auto g_of = [&](int j) {
        Floats<SIZE> g = load_floats<SIZE>(dy + j);
        if (weight) {
            Floats<SIZE> weights = load_floats<SIZE>(weight + j);
            for (int k = 0; k < SIZE; ++k) g.at[k] *= weights.at[k];
        }
        return g;
    };
    float squares = 0.0f, products = 0.0f;
    for (int j = threadIdx.x * SIZE; j < N; j += blockDim.x * SIZE) {
        Floats<SIZE> row = load_floats<SIZE>(x + j), g = g_of(j);
        squares += squares_of(row);
        for (int k = 0; k < SIZE; ++k) products += g.at[k] * row.at[k];
    }
    const RmsRow common(row_sum(squares, warp_parts[0]) / N, row_sum(products, warp_parts[1]) / N, N, eps);
    if (threadIdx.x == 0) statistics[blockIdx.x] = {0.0f, common.rstd};
    for (int j = threadIdx.x * SIZE; j < N; j += blockDim.x * SIZE) {
        Floats<SIZE> row = load_floats<SIZE>(x + j), g = g_of(j);
        for (int k = 0; k < SIZE; ++k) g.at[k] = common.scale * (g.at[k] - row.at[k] * common.rstd * common.gn);
        store_floats(dx + j, g);
    }
}

template <typename T>
__global__ void rms_norm_backward_columns(const T* dy, const T* x, const float2* statistics, float* partial, T* dweight,
                                          T* dbias, long long dy_stride, long long x_stride, long long M, int N)
{
    norm_columns<false>(dy, x, statistics, partial, dweight, dbias, dy_stride, x_stride, M, N);
}
