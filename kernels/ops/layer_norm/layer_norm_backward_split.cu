// Level 5: layer norm in CUDA C, backward, for rows that no block holds: each is divided among several.
//
// With normalised rows n_ij = (x_ij - mean_i) * rstd_i and g_ij = dy_ij * weight_j, for each of M rows of N columns:
//
//     dx_ij     = rstd_i * (g_ij - 1/N * sum_k g_ik - n_ij * 1/N * sum_k g_ik n_ik)
//     dweight_j = sum_i dy_ij * n_ij
//     dbias_j   = sum_i dy_ij
//
//     parts      of a part of a row: its mean, and sums over its columns.
//     joined     of a row, from its parts: what dx needs to know of it.
//     tiles      dx, and the sums of columns, by threads that own a pack of columns and walk down the rows.
//
// dy and x are read twice. Rows are whole packs of SIZE values, of which parts has any number of threads, whole warps.

#include "row_parts.cuh"

// Sums over the part: of (x - mean)², of g and of g * (x - mean).
struct alignas(16) Part {
    float mean, squares, g, gc;
};

// Of a whole row; g and gn are means.
struct alignas(16) Row {
    float mean, rstd, g, gn;
};

// The row whose `count` parts have `part_columns` columns each, but for the last; given to each lane of a warp. All is counted
// from the mean of the first part, so that lanes meet once; the mean of the row takes its place at last.
__device__ Row row_of(const Part* parts, int count, int part_columns, int N, float eps)
{
    const float first = parts[0].mean;
    float sum = 0.0f, squares = 0.0f, g = 0.0f, gc = 0.0f;
    for (int p = threadIdx.x % 32; p < count; p += 32) {
        const Part part = parts[p];
        const float apart = part.mean - first, columns = columns_of(p, part_columns, N);
        sum += columns * apart;
        squares += part.squares + columns * apart * apart;
        g += part.g;
        gc += part.gc + part.g * apart;
    }
    sum = warp_sum(sum);
    squares = warp_sum(squares);
    g = warp_sum(g);
    gc = warp_sum(gc);
    const float share = __fdividef(1.0f, N), apart = sum * share, rstd = rstd_of((squares - sum * apart) * share, eps);
    return {first + apart, rstd, g * share, (gc - g * apart) * rstd * share};
}

// SIZE columns of g from those of dy. The product is rounded: fused into the subtraction of the mean of g, it would leave its
// rounding in dx where the two are equal.
template <int SIZE, typename T>
__device__ Floats<SIZE> g_of(Floats<SIZE> dy, const T* weight, int j)
{
    if (!weight) return dy;
    const Floats<SIZE> weights = load_floats<SIZE>(weight + j);
    for (int v = 0; v < SIZE; ++v) dy.at[v] = __fmul_rn(dy.at[v], weights.at[v]);
    return dy;
}

// The grid: rows, parts of a row.
template <typename T, int SIZE>
__global__ void layer_norm_backward_parts(const T* dy, const T* x, const T* weight, Part* parts, long long dy_stride,
                                          long long x_stride, int N)
{
    __shared__ float warp_parts[4][32];
    const Columns columns(blockIdx.y, N);
    auto column = [&](int k) { return columns.pack_start<SIZE>(k); };
    x += blockIdx.x * x_stride;
    dy += blockIdx.x * dy_stride;
    Pack<T, SIZE> xs[VALUES / SIZE], dys[VALUES / SIZE];
    columns.load(xs, x);
    columns.load(dys, dy);
    __syncthreads();  // compilers move no load behind a barrier: none waits for a sum

    float sum = 0.0f, squares = 0.0f, g_sum = 0.0f, gc_sum = 0.0f;
    for (int k = 0; k < VALUES / SIZE; ++k)
        if (column(k) < columns.end)
            for (float value : widened(xs[k]).at) sum += value;
    const float mean = row_sum(sum, warp_parts[0]) / (columns.end - columns.first);
    for (int k = 0; k < VALUES / SIZE; ++k) {
        if (column(k) >= columns.end) continue;
        const Floats<SIZE> values = widened(xs[k]), g = g_of(widened(dys[k]), weight, column(k));
        for (int v = 0; v < SIZE; ++v) {
            const float centred = values.at[v] - mean;
            squares += centred * centred;
            g_sum += g.at[v];
            gc_sum += g.at[v] * centred;
        }
    }
    squares = row_sum(squares, warp_parts[1]);
    g_sum = row_sum(g_sum, warp_parts[2]);
    gc_sum = row_sum(gc_sum, warp_parts[3]);
    if (threadIdx.x == 0) parts[(long long)blockIdx.x * gridDim.y + blockIdx.y] = {mean, squares, g_sum, gc_sum};
}

// ceil(M / ROWS) blocks of (32, ROWS) threads: a warp a row, of which there are `count` parts with `part_columns` columns each.
template <int ROWS>
__global__ void layer_norm_backward_joined(const Part* parts, Row* rows, long long M, int count, int part_columns,
                                           int N, float eps)
{
    const long long i = (long long)blockIdx.x * ROWS + threadIdx.y;
    if (i >= M) return;
    const Row row = row_of(parts + i * count, count, part_columns, N, eps);
    if (threadIdx.x == 0) rows[i] = row;
}

// (ceil(N / (32 * SIZE)), G) blocks of (32, HEIGHT) threads, of which those with the same threadIdx.x share columns and take
// every (HEIGHT * G)-th row. partial is G×2×N, or null where G is 1: then the sums are dweight and dbias themselves.
constexpr int HEIGHT = 8;

template <typename T, int SIZE>
__global__ void __launch_bounds__(32 * HEIGHT)
    layer_norm_backward_tiles(const T* dy, const T* x, const T* weight, const Row* rows, T* dx, T* dweight, T* dbias,
                              float* partial, long long dy_stride, long long x_stride, long long M, int N)
{
    __shared__ float sums[HEIGHT][2 * SIZE][32];
    const int j = (blockIdx.x * 32 + threadIdx.x) * SIZE;
    Floats<2 * SIZE> sum = {};  // of dy * n, then of dy
    if (j < N) {
#pragma unroll 2  // rows on their way at once
        for (long long i = blockIdx.y * HEIGHT + threadIdx.y; i < M; i += gridDim.y * HEIGHT) {
            const Row row = rows[i];
            const Floats<SIZE> dys = load_floats<SIZE>(dy + i * dy_stride + j), xs = load_floats<SIZE>(x + i * x_stride + j);
            Floats<SIZE> out = g_of(dys, weight, j);
            for (int v = 0; v < SIZE; ++v) {
                const float n = (xs.at[v] - row.mean) * row.rstd;
                sum.at[v] += dys.at[v] * n;
                sum.at[SIZE + v] += dys.at[v];
                out.at[v] = row.rstd * (out.at[v] - row.g - n * row.gn);
            }
            store_floats(dx + i * N + j, out);
        }
    }
    for (int v = 0; v < 2 * SIZE; ++v) sums[threadIdx.y][v][threadIdx.x] = sum.at[v];
    __syncthreads();
    if (threadIdx.y > 0 || j >= N) return;
    for (int y = 1; y < HEIGHT; ++y)
        for (int v = 0; v < 2 * SIZE; ++v) sum.at[v] += sums[y][v][threadIdx.x];
    for (int v = 0; v < SIZE; ++v) {
        if (partial) {
            partial[2ll * blockIdx.y * N + j + v] = sum.at[v];
            partial[(2ll * blockIdx.y + 1) * N + j + v] = sum.at[SIZE + v];
        } else {
            if (dweight) dweight[j + v] = (T)sum.at[v];
            if (dbias) dbias[j + v] = (T)sum.at[SIZE + v];
        }
    }
}
