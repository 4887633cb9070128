// Level 5: layer norm and GELU in CUDA C, y = gelu((x - mean) * rstd * weight + bias), and their backward, for M rows of N
// columns. Rows are whole packs of SIZE values. A thread takes packs threadIdx.x + k * blockDim.x of a row.

#include "activations.cuh"
#include "packs.cuh"
#include "reductions.cuh"

struct Statistics {
    float mean, rstd;  // rstd = 1 / sqrt(variance + eps)
    float rest;        // of the mean, what its float lacks: much, where the mean is far from 0
};

template <int SIZE>
__device__ float sum_of(Floats<SIZE> row)
{
    float sum = 0.0f;
    for (int k = 0; k < SIZE; ++k) sum += row.at[k];
    return sum;
}

template <int SIZE>
__device__ float squares_of(Floats<SIZE> row, float mean)
{
    float squares = 0.0f;
    for (int k = 0; k < SIZE; ++k) squares += (row.at[k] - mean) * (row.at[k] - mean);
    return squares;
}

// Of a row that is read twice for them: by a block of whole warps.
template <int SIZE, typename T>
__device__ Statistics statistics_of(const T* x, int N, float eps, float (*warp_parts)[32])
{
    float sum = 0.0f, squares = 0.0f;
    for (int j = threadIdx.x * SIZE; j < N; j += blockDim.x * SIZE) sum += sum_of(load_floats<SIZE>(x + j));
    float mean = row_sum(sum, warp_parts[0]) / N;
    for (int j = threadIdx.x * SIZE; j < N; j += blockDim.x * SIZE) squares += squares_of(load_floats<SIZE>(x + j), mean);
    return {mean, rsqrtf(row_sum(squares, warp_parts[1]) / N + eps)};
}

// The same for the backward, with the rest of the mean.
template <int SIZE, typename T>
__device__ Statistics precise_statistics_of(const T* x, int N, float eps, float (*warp_parts)[32])
{
    Statistics stats = statistics_of<SIZE>(x, N, eps, warp_parts);
    float sum = 0.0f;
    for (int j = threadIdx.x * SIZE; j < N; j += blockDim.x * SIZE) {
        Floats<SIZE> row = load_floats<SIZE>(x + j);
        for (int k = 0; k < SIZE; ++k) sum += row.at[k] - stats.mean;
    }
    stats.rest = row_sum(sum, warp_parts[2]) / N;
    return stats;
}

template <int SIZE, typename T>
__device__ void put(T* y, Floats<SIZE> row, Floats<SIZE> weights, Floats<SIZE> biases, int j, Statistics stats)
{
    for (int k = 0; k < SIZE; ++k) {
        float h = (row.at[k] - stats.mean - stats.rest) * stats.rstd * weights.at[k] + biases.at[k];
        row.at[k] = activated<T, GELU>(h).value;
    }
    store_floats(y + j, row);
}

// A block a row, which reads it three times: from the cache after the first, where rows are not too wide.
template <typename T, int SIZE>
__global__ void layer_norm_gelu_reread(const T* x, const T* weight, const T* bias, T* y, long long x_stride, int N, float eps)
{
    __shared__ float warp_parts[2][32];
    x += blockIdx.x * x_stride;
    Statistics stats = statistics_of<SIZE>(x, N, eps, warp_parts);
    for (int j = threadIdx.x * SIZE; j < N; j += blockDim.x * SIZE)
        put(y + (long long)blockIdx.x * N, load_floats<SIZE>(x + j), load_floats<SIZE>(weight + j), load_floats<SIZE>(bias + j),
            j, stats);
}

// The row stays in registers, PACKS packs a thread. ceil(M / ROWS) blocks of (THREADS, ROWS) threads, whole warps; ROWS is
// 1 if THREADS is more than 32.
template <typename T, int SIZE, int PACKS, int THREADS, int ROWS>
__global__ void __launch_bounds__(THREADS* ROWS)
    layer_norm_gelu_kept(const T* x, const T* weight, const T* bias, T* y, long long x_stride, long long M, int N, float eps)
{
    __shared__ float warp_sums[32];
    __shared__ float2 warp_rests[32];
    const long long i = (long long)blockIdx.x * ROWS + threadIdx.y;
    x += i * x_stride;
    auto column = [](int k) { return (k * THREADS + (int)threadIdx.x) * SIZE; };
    // The rows of a warp go on together, whether or not the last of them are there: sums need all of its lanes. Of a thread's packs
    // the last alone may be beyond a row.
    auto present = [&](int k) { return (ROWS == 1 || i < M) && (k < PACKS - 1 || column(k) < N); };
    // No compiler moves a load across a barrier: weight and bias are asked for with the row where registers have room for them.
    constexpr bool TOGETHER = PACKS * SIZE * sizeof(T) <= 32;
    Pack<T, SIZE> row[PACKS], weights[PACKS], biases[PACKS];
    for (int k = 0; k < PACKS; ++k) {
        if (!present(k)) continue;
        row[k] = load_pack<SIZE>(x + column(k));
        if (TOGETHER) weights[k] = load_pack<SIZE>(weight + column(k)), biases[k] = load_pack<SIZE>(bias + column(k));
    }
    const float share = __fdividef(1.0f, N);  // no division waits for a sum
    float sum = 0.0f;
    float2 rests = {};  // of what the rounded mean leaves, and of its squares
    for (int k = 0; k < PACKS; ++k)
        if (present(k)) sum += sum_of(widened(row[k]));
    const float mean = row_sum<THREADS>(sum, warp_sums) * share;
    for (int k = 0; k < PACKS; ++k) {
        if (!present(k)) continue;
        const Floats<SIZE> values = widened(row[k]);
        for (int v = 0; v < SIZE; ++v) rests.x += values.at[v] - mean;
        rests.y += squares_of(values, mean);
    }
    rests = row_sum<THREADS>(rests, warp_rests);
    const float rest = rests.x * share;
    const Statistics stats = {mean, rstd_of(rests.y * share - rest * rest, eps), rest};
    for (int k = 0; k < PACKS; ++k) {
        if (!present(k)) continue;
        if (!TOGETHER) weights[k] = load_pack<SIZE>(weight + column(k)), biases[k] = load_pack<SIZE>(bias + column(k));
        put(y + i * N, widened(row[k]), widened(weights[k]), widened(biases[k]), column(k), stats);
    }
}

// What the backward knows at a pack of columns of a row: n = (x - mean) * rstd, and dh = dy * gelu'(n * weight + bias).
template <int SIZE>
struct Known {
    Floats<SIZE> n, dh;
};

template <int SIZE, typename T>
__device__ Known<SIZE> known(const T* dy, const T* x, Floats<SIZE> weights, Floats<SIZE> biases, Statistics stats)
{
    Known<SIZE> at = {load_floats<SIZE>(x), load_floats<SIZE>(dy)};
    for (int k = 0; k < SIZE; ++k) {
        at.n.at[k] = (at.n.at[k] - stats.mean - stats.rest) * stats.rstd;
        at.dh.at[k] *= activated<T, GELU>(at.n.at[k] * weights.at[k] + biases.at[k]).slope;
    }
    return at;
}

struct Sums {
    Statistics stats;
    float g, gn;  // the means of g = dh * weight and of g * n
};

// A block a row.
template <typename T, int SIZE>
__global__ void layer_norm_gelu_backward_statistics(const T* dy, const T* x, const T* weight, const T* bias, Sums* statistics,
                                                    long long dy_stride, long long x_stride, int N, float eps)
{
    __shared__ float warp_parts[5][32];
    dy += blockIdx.x * dy_stride;
    x += blockIdx.x * x_stride;
    Statistics stats = precise_statistics_of<SIZE>(x, N, eps, warp_parts);
    float g_sum = 0.0f, gn_sum = 0.0f;
    for (int j = threadIdx.x * SIZE; j < N; j += blockDim.x * SIZE) {
        Floats<SIZE> weights = load_floats<SIZE>(weight + j), biases = load_floats<SIZE>(bias + j);
        Known<SIZE> at = known<SIZE>(dy + j, x + j, weights, biases, stats);
        for (int k = 0; k < SIZE; ++k) {
            g_sum += at.dh.at[k] * weights.at[k];
            gn_sum += at.dh.at[k] * weights.at[k] * at.n.at[k];
        }
    }
    g_sum = row_sum(g_sum, warp_parts[3]) / N;
    gn_sum = row_sum(gn_sum, warp_parts[4]) / N;
    if (threadIdx.x == 0) statistics[blockIdx.x] = {stats, g_sum, gn_sum};
}

// dx, and partial, G×2×N, what each of G = gridDim.y blocks one above the other has of the sums of its columns, for dweight and
// dbias; where G is 1, partial is null, and the sums are these themselves. A thread keeps SIZE columns and takes rows of them.
// blockDim.x * blockDim.y is 256.
template <typename T, int SIZE>
__global__ void layer_norm_gelu_backward_columns(const T* dy, const T* x, const T* weight, const T* bias,
                                                 const Sums* statistics, T* dx, T* dweight, T* dbias, float* partial,
                                                 long long dy_stride, long long x_stride, long long M, int N)
{
    __shared__ Known<SIZE> thread_parts[256];
    const int j = (blockIdx.x * blockDim.x + threadIdx.x) * SIZE;
    Known<SIZE> sums = {};  // of dh * n and of dh
    if (j < N) {
        const Floats<SIZE> weights = load_floats<SIZE>(weight + j), biases = load_floats<SIZE>(bias + j);
        for (long long i = blockIdx.y * blockDim.y + threadIdx.y; i < M; i += gridDim.y * blockDim.y) {
            const Sums row = statistics[i];
            Known<SIZE> at = known<SIZE>(dy + i * dy_stride + j, x + i * x_stride + j, weights, biases, row.stats);
            for (int k = 0; k < SIZE; ++k) {
                float n = at.n.at[k], dh = at.dh.at[k];
                sums.n.at[k] += dh * n;
                sums.dh.at[k] += dh;
                // Fused with the subtraction, the product would not be rounded as it is in the mean of g, and one column would
                // leave the difference.
                at.n.at[k] = row.stats.rstd * (__fmul_rn(dh, weights.at[k]) - row.g - n * row.gn);
            }
            store_floats(dx + i * N + j, at.n);
        }
    }
    thread_parts[threadIdx.y * blockDim.x + threadIdx.x] = sums;
    __syncthreads();
    if (threadIdx.y > 0 || j >= N) return;
    for (int above = 1; above < blockDim.y; ++above)
        for (int k = 0; k < SIZE; ++k) {
            sums.n.at[k] += thread_parts[above * blockDim.x + threadIdx.x].n.at[k];
            sums.dh.at[k] += thread_parts[above * blockDim.x + threadIdx.x].dh.at[k];
        }
    if (!partial) {
        store_floats(dweight + j, sums.n);
        store_floats(dbias + j, sums.dh);
        return;
    }
    partial += (long long)blockIdx.y * 2 * N + j;
    for (int k = 0; k < SIZE; ++k) {
        partial[k] = sums.n.at[k];
        partial[N + k] = sums.dh.at[k];
    }
}
