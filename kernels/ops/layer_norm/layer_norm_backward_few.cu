// Level 5: layer norm in CUDA C, backward, for so few rows that all are on the GPU at a time, at whatever places they start.
// The formulas stand in layer_norm_backward.cu.
//
// All of dy, x and weight is asked for at once, and stays in registers. Where one block has room for all rows, its sums of
// columns are dweight and dbias, and there is no second kernel. Nor is there where other blocks of the same launch add up columns
// (layer_norm_backward_stripe.cuh).

#include "few.cuh"
#include "layer_norm_backward_stripe.cuh"
#include "row_parts.cuh"

// Of a part of a row or a whole one, with a value near the mean of its x: sums of left = x - near, of left², of g and of g * left.
struct Part {
    float near, rests, squares, g, gc;
};

// Of a whole row, whose mean is near + rest: rounded to one float, a mean far from 0 would be off. g and gn are means.
struct Row {
    float near, rest, rstd, g, gn;
};

__device__ Row row_of(Part whole, float share, float eps)
{
    const float rest = whole.rests * share, rstd = rstd_of((whole.squares - whole.rests * rest) * share, eps);
    return {whole.near, rest, rstd, whole.g * share, (whole.gc - whole.g * rest) * rstd * share};
}

// A row from its `count` parts, given to each lane of a warp. All is counted from the first part's value, so that lanes meet once.
__device__ Part whole_of(const Part* parts, int count, int part_columns, int N)
{
    Part whole = {parts[0].near};
    for (int p = threadIdx.x % 32; p < count; p += 32) {
        const Part part = parts[p];
        const float apart = part.near - whole.near, off = columns_of(p, part_columns, N) * apart;
        whole.rests += part.rests + off;
        whole.squares += part.squares + apart * (2.0f * part.rests + off);
        whole.g += part.g;
        whole.gc += part.gc + part.g * apart;
    }
    return {whole.near, warp_sum(whole.rests), warp_sum(whole.squares), warp_sum(whole.g), warp_sum(whole.gc)};
}

// partial is G×2×N for G blocks, if there are several. With STRIPE_PACKS it is null, and behind the blocks that have rows
// there is one for each stripe of columns.
template <typename T, int SIZE, int PACKS, int ROWS, int LANES, int STRIPE_PACKS = 0, int STRIPE_LANES = 32>
__global__ void __launch_bounds__(STRIPE_PACKS > 0 ? THREADS_OF_STRIPE : MOST_THREADS, 1)
    layer_norm_backward_few(const T* dy, const T* x, const T* weight, T* dx, T* dweight, T* dbias, float* partial,
                            long long dy_stride, long long x_stride, long long M, int N, float eps)
{
    if constexpr (STRIPE_PACKS > 0) {
        const int stripe = blockIdx.x - (gridDim.x - stripes(N));
        if (stripe >= 0)
            return stripe_sums<SIZE, STRIPE_PACKS, STRIPE_LANES>(dy, x, dweight, dbias, dy_stride, x_stride, M, N, stripe, eps);
    }
    __shared__ Part parts[ROWS][(STRIPE_PACKS > 0 ? THREADS_OF_STRIPE : MOST_THREADS) / 32];
    __shared__ Meeting<PACKS * SIZE> meeting;
    const Few<SIZE, PACKS, ROWS, LANES> mine;
    const int part_columns = columns_of(mine.part, mine.PART_COLUMNS, N);

    Pack<T, SIZE> weights[PACKS], dys[ROWS][PACKS], xs[ROWS][PACKS];
    mine.load(weights, weight, N);
    mine.load(dys, dy, dy_stride, M, N);
    mine.load(xs, x, x_stride, M, N);
    __syncthreads();  // compilers move no load behind a barrier: none waits for a sum
    // The product is rounded: fused into the subtraction of the mean of g, it would leave its rounding where the two are equal.
    auto g_of = [&](Floats<SIZE> dy, int p) {
        if (!weight) return dy;
        const Floats<SIZE> scale = widened(weights[p]);
        for (int v = 0; v < SIZE; ++v) dy.at[v] = __fmul_rn(dy.at[v], scale.at[v]);
        return dy;
    };

    const float share = __fdividef(1.0f, N), part_share = __fdividef(1.0f, part_columns);  // no division waits for a sum
    Row rows[ROWS];
#pragma unroll  // else what was loaded goes to local memory, to be counted through
    for (int k = 0; k < ROWS; ++k) {
        float sum = 0.0f, rests = 0.0f, squares = 0.0f, g_sum = 0.0f, gc_sum = 0.0f;
        for (int p = 0; p < PACKS; ++p) {
            if (mine.column(p) >= N) continue;
            const Floats<SIZE> values = widened(xs[k][p]), g = g_of(widened(dys[k][p]), p);
            for (int v = 0; v < SIZE; ++v) sum += values.at[v], g_sum += g.at[v];
        }
        const float near = warp_sum<LANES>(sum) * part_share;
        g_sum = warp_sum<LANES>(g_sum);
        for (int p = 0; p < PACKS; ++p) {
            if (mine.column(p) >= N) continue;
            const Floats<SIZE> values = widened(xs[k][p]), g = g_of(widened(dys[k][p]), p);
            for (int v = 0; v < SIZE; ++v) {
                const float left = values.at[v] - near;
                rests += left;
                squares += left * left;
                gc_sum += g.at[v] * left;
            }
        }
        const Part part = {near, warp_sum<LANES>(rests), warp_sum<LANES>(squares), g_sum, warp_sum<LANES>(gc_sum)};
        if (mine.parts == 1)
            rows[k] = row_of(part, share, eps);
        else if (mine.lane == 0)
            parts[k][threadIdx.y * mine.parts + mine.part] = part;
    }
    if (mine.parts > 1) {
        __syncthreads();
#pragma unroll
        for (int k = 0; k < ROWS; ++k)
            rows[k] = row_of(whole_of(parts[k] + threadIdx.y * mine.parts, mine.parts, mine.PART_COLUMNS, N), share, eps);
    }

    Floats<SIZE> dweights[PACKS] = {}, dbiases[PACKS] = {};
#pragma unroll
    for (int k = 0; k < ROWS; ++k)
        for (int p = 0; p < PACKS; ++p) {
            if (mine.column(p) >= N || mine.row(k) >= M) continue;
            const Floats<SIZE> values = widened(xs[k][p]), gradients = widened(dys[k][p]);
            Floats<SIZE> out = g_of(gradients, p);
            for (int v = 0; v < SIZE; ++v) {
                const float n = (values.at[v] - rows[k].near - rows[k].rest) * rows[k].rstd;
                dweights[p].at[v] += gradients.at[v] * n;
                dbiases[p].at[v] += gradients.at[v];
                out.at[v] = rows[k].rstd * (out.at[v] - rows[k].g - n * rows[k].gn);
            }
            store_floats(dx + mine.row(k) * N + mine.column(p), out);
        }
    if (STRIPE_PACKS > 0) return;
    partial += 2ll * blockIdx.x * N;
    if (dweight || gridDim.x > 1) mine.add_up(dweights, meeting, dweight, partial, N);
    if (dbias || gridDim.x > 1) mine.add_up(dbiases, meeting, dbias, partial + N, N);
}
