// Level 5: layer norm and GELU in CUDA C, backward, for so few rows that one block has all, at whatever places they start.
// The formulas stand in triton_backward.py; layer_norm_backward_few.cu is the same for layer norm alone.
//
// All that is read is asked for at once, and stays in registers, a few values a thread. The sums of columns are dweight and
// dbias, and there is no second kernel.

#include "activations.cuh"
#include "few.cuh"
#include "row_parts.cuh"

constexpr int THREADS = 1024;  // of the block, at most

// Of the x in some columns: a value near their mean, what that lacks, and the sum of (x - mean)².
struct Part {
    float near, rest, squares;
};

// The row of N columns, from its parts, of so many columns each, but for the last; given to each lane of a warp.
__device__ Part merged(const Part* parts, int count, int part_columns, int N, float share)
{
    const int lane = threadIdx.x % 32;
    const float near = parts[0].near, columns = lane < count ? columns_of(lane, part_columns, N) : 0.0f;
    Part part = lane < count ? parts[lane] : Part{near, 0.0f, 0.0f};
    part.rest += part.near - near;
    const float rest = warp_sum(columns * part.rest) * share, apart = part.rest - rest;
    return {near, rest, warp_sum(part.squares + columns * apart * apart)};
}

// One block of (a row's threads, rows), whole warps.
template <typename T, int SIZE, int PACKS, int LANES>
__global__ void __launch_bounds__(THREADS)
    layer_norm_gelu_backward_few(const T* dy, const T* x, const T* weight, const T* bias, T* dx, T* dweight, T* dbias,
                                 long long dy_stride, long long x_stride, int M, int N, float eps)
{
    __shared__ Part parts[THREADS / 32];
    __shared__ float2 g_parts[THREADS / 32];
    __shared__ Meeting<PACKS * SIZE, THREADS> meeting;
    const Few<SIZE, PACKS, 1, LANES> mine;
    const int first_part = threadIdx.y * mine.parts;
    auto inside = [&](int p) { return mine.column(p) < N; };

    Pack<T, SIZE> dys[1][PACKS], xs[1][PACKS], scales[PACKS], shifts[PACKS];
    for (int p = 0; p < PACKS; ++p) {
        scales[p] = inside(p) ? load_pack<SIZE>(weight + mine.column(p)) : Pack<T, SIZE>{};
        shifts[p] = inside(p) ? load_pack<SIZE>(bias + mine.column(p)) : Pack<T, SIZE>{};
    }
    mine.load(dys, dy, dy_stride, M, N);
    mine.load(xs, x, x_stride, M, N);
    // Every warp has a row, but the compiler does not know: without a branch here it would ask for what the first sum does not need
    // only behind that sum, which waits for x.
    if ((int)threadIdx.y / (32 / LANES) * (32 / LANES) >= M) return;

    const int part_columns = columns_of(mine.part, mine.PART_COLUMNS, N);
    const float share = __fdividef(1.0f, N), part_share = __fdividef(1.0f, part_columns);  // no division waits for a sum
    float sum = 0.0f, rests = 0.0f, squares = 0.0f;
    for (int p = 0; p < PACKS; ++p)
        for (int v = 0; v < SIZE; ++v) sum += widened(xs[0][p]).at[v];
    Part row = {warp_sum<LANES>(sum) * part_share};
    for (int p = 0; p < PACKS; ++p)
        for (int v = 0; v < SIZE; ++v) {
            const float left = inside(p) ? widened(xs[0][p]).at[v] - row.near : 0.0f;
            rests += left;
            squares += left * left;
        }
    rests = warp_sum<LANES>(rests);
    row.rest = rests * part_share;
    row.squares = warp_sum<LANES>(squares) - rests * row.rest;
    if (mine.parts > 1) {
        if (mine.lane == 0) parts[first_part + mine.part] = row;
        __syncthreads();
        row = merged(parts + first_part, mine.parts, mine.PART_COLUMNS, N, share);
    }
    const float rstd = rstd_of(row.squares * share, eps);

    Floats<SIZE> ns[PACKS], dhs[PACKS], gs[PACKS];
    float2 g_row = {0.0f, 0.0f};  // sums of g and of g * n
    for (int p = 0; p < PACKS; ++p) {
        const Floats<SIZE> values = widened(xs[0][p]), gradients = widened(dys[0][p]);
        const Floats<SIZE> scale = widened(scales[p]), shift = widened(shifts[p]);
        for (int v = 0; v < SIZE; ++v) {
            const float n = (values.at[v] - row.near - row.rest) * rstd;
            const float dh = gradients.at[v] * activated<T, GELU>(n * scale.at[v] + shift.at[v]).slope;
            // Fused with the subtraction of the mean of g, the product would not be rounded as it is there, and one column would
            // leave the difference.
            const float g = inside(p) ? __fmul_rn(dh, scale.at[v]) : 0.0f;
            g_row.x += g;
            g_row.y += g * n;
            ns[p].at[v] = n;
            dhs[p].at[v] = dh;
            gs[p].at[v] = g;
        }
    }
    g_row = {warp_sum<LANES>(g_row.x), warp_sum<LANES>(g_row.y)};
    if (mine.parts > 1) {
        if (mine.lane == 0) g_parts[first_part + mine.part] = g_row;
        __syncthreads();
        const int lane = threadIdx.x % 32;
        g_row = lane < mine.parts ? g_parts[first_part + lane] : float2{0.0f, 0.0f};
        g_row = {warp_sum(g_row.x), warp_sum(g_row.y)};
    }

    Floats<SIZE> dweights[PACKS] = {}, dbiases[PACKS] = {};
    for (int p = 0; p < PACKS; ++p) {
        if (mine.row(0) >= M || !inside(p)) continue;
        for (int v = 0; v < SIZE; ++v) {
            const float n = ns[p].at[v];
            dweights[p].at[v] = dhs[p].at[v] * n;
            dbiases[p].at[v] = dhs[p].at[v];
            gs[p].at[v] = rstd * (gs[p].at[v] - g_row.x * share - n * (g_row.y * share));
        }
        store_floats(dx + mine.row(0) * N + mine.column(p), gs[p]);
    }
    mine.add_up(dweights, meeting, dweight, nullptr, N);
    mine.add_up(dbiases, meeting, dbias, nullptr, N);
}
