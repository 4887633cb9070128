// Level 5: layer norm in CUDA C, backward: the rungs that read dy and x once, by 16-byte loads.
// The formulas stand in layer_norm_backward.cu.
//
// A block walks from row to row. Its threads keep their columns, so the sums for dweight and dbias stay in registers. Rows
// on their way queue in shared memory; a thread reads only what it copied itself, so the queue needs no barrier. A row
// costs one barrier: each warp sums its part of the row around its own mean, and the parts are merged. Of narrow rows a warp
// has several, each in as many lanes as it has vectors, and no barrier is needed.
//
// CLUSTER blocks share a row, each holding part of its columns; with more than 1 they exchange their parts through each
// other's shared memory, which only a GPU of sm_90 or newer does.
//
// PEELED rows may start and end within a vector, those of dy, x and dx alike, and a block steps over whole vectors from one of
// its rows to the next: so all rows of a thread start at the same place within one, and its columns stay its own. A vector that
// is shared with a neighbouring row is copied as a whole; what is the neighbour's in it then counts as zeros.

#include <cuda_pipeline_primitives.h>

#include "cluster.cuh"
#if CLUSTER > 1
#include "cluster_parts.cuh"
#endif
#include "met_by_column.cuh"
#include "peeled.cuh"
#include "reductions.cuh"
#include "vectors.cuh"

// Part of a row: its mean, and sums of its columns: of (x - mean)², of g and of g * (x - mean).
struct alignas(16) Part {
    float mean, squares, g, gc;
};

// The whole row of N columns from WIDTH parts of it, one a lane, with `columns` each, or none (Chan, Golub and LeVeque 1979,
// "Updating formulae and a pairwise algorithm for computing sample variances").
template <int WIDTH>
__device__ Part merged(Part part, float columns, int N)
{
    float mean = warp_sum<WIDTH>(columns * part.mean) / N;
    float apart = part.mean - mean;
    return {mean, warp_sum<WIDTH>(part.squares + columns * apart * apart), warp_sum<WIDTH>(part.g),
            warp_sum<WIDTH>(part.gc + part.g * apart)};
}

// A multiple of CLUSTER blocks of (THREADS, ROWS) threads, whole warps; THREADS is a power of two, and ROWS is 1 if that is
// more than 32. partial is G×2×N, as for the kernel partials, with G = gridDim.x / CLUSTER. 2 * STAGES * VECTORS * THREADS *
// ROWS * 16 bytes of dynamic shared memory, and where PEELED half a stage more.
template <typename T, int VECTORS, int THREADS, int ROWS, int STAGES, int BLOCKS, bool FULL, bool PEELED = false>
__global__ void CLUSTER_DIMS __launch_bounds__(THREADS* ROWS, BLOCKS)
    layer_norm_backward_vector(const T* dy, const T* x, const T* weight, T* dx, float* partial, long long dy_stride,
                               long long x_stride, long long M, int N, float eps)
{
    constexpr int SIZE = Vector<T>::SIZE, PAIRS = Vector<T>::PAIRS;
    constexpr int LANES = THREADS < 32 ? THREADS : 32, WARP_ROWS = 32 / LANES;  // of a warp: lanes of a row, and rows
    constexpr int WARPS = THREADS / LANES, PARTS = CLUSTER * WARPS;
    extern __shared__ uint4 queue[];
    __shared__ Part parts[2][PARTS];
    const int lane = threadIdx.x % 32, warp = blockIdx.x % CLUSTER * WARPS + threadIdx.x / 32;
    const int G = gridDim.x / CLUSTER, group = blockIdx.x / CLUSTER;

    const long long first = (long long)group * ROWS + threadIdx.y, step = (long long)G * ROWS;
    // The columns of the row before that are in the first vector of each row.
    const int before = PEELED ? first * N % SIZE : 0;

    // Vector k of this thread, and of a warp of the row, is at these columns. Of a thread's vectors the last alone may be behind
    // the row's end, and the last two beyond it in part; in a cluster's last block any may.
    auto column = [&](int k) { return ((warp / WARPS * VECTORS + k) * THREADS + (int)threadIdx.x) * SIZE - before; };
    auto inside = [&](int k) { return FULL || (CLUSTER == 1 && k < VECTORS - 1) || column(k) < N; };
    auto has = [&](int k, int j) { return !PEELED || (0 <= column(k) + j && column(k) + j < N); };
    auto whole = [&](int k) {
        return !PEELED || ((k > 0 || has(k, 0)) && ((CLUSTER == 1 && k < VECTORS - 2) || has(k, SIZE - 1)));
    };
    auto columns_of = [&](int warp) {
        int columns = 0;
        for (int k = 0; k < VECTORS; ++k) {
            int begin = ((warp / WARPS * VECTORS + k) * WARPS + warp % WARPS) * LANES * SIZE - before;
            columns += max(min(N, begin + LANES * SIZE) - max(begin, 0), 0);
        }
        return FULL ? VECTORS * LANES * SIZE : columns;
    };
    // A warp without columns divides a sum of zeros.
    const float slot_columns = columns_of(lane % PARTS), warp_columns = max(columns_of(warp), 1);

    auto place = [&](int stage, int k) {  // of x; of dy behind it
        return (Vector<T>*)queue + ((stage * VECTORS + k) * 2 * ROWS + threadIdx.y) * THREADS + threadIdx.x;
    };
    // Behind the last row there is nothing to copy.
    auto copied = [&](long long i, int k) { return i < M && inside(k) && (i < M - 1 || whole(k) || has(k, SIZE - 1)); };
    auto fetch = [&](long long i, int stage) {
        for (int k = 0; k < VECTORS; ++k)
            if (copied(i, k)) {
                __pipeline_memcpy_async(place(stage, k), x + i * x_stride + column(k), 16);
                __pipeline_memcpy_async(place(stage, k) + ROWS * THREADS, dy + i * dy_stride + column(k), 16);
            }
        __pipeline_commit();
    };
    for (int stage = 0; stage < STAGES; ++stage) fetch(first + stage * step, stage);

    Vector<T> weights[VECTORS];
    // Behind the queue, where rows are PEELED: registers are left for more blocks, which compute while others wait for a row's ends.
    auto kept = [&](int k) { return (Vector<T>*)queue + ((2 * STAGES * VECTORS + k) * ROWS + threadIdx.y) * THREADS + threadIdx.x; };
    if constexpr (PEELED) {
        load_columns_at(weights, weight, column, N, 1.0f);
        for (int k = 0; k < VECTORS; ++k) *kept(k) = weights[k];
    } else {
        for (int k = 0; k < VECTORS; ++k)
            if (inside(k)) weights[k] = load_columns(weight, column(k), 1.0f);
    }
    auto weight_of = [&](int k, int p) { return to_float2(PEELED ? kept(k)->at[p] : weights[k].at[p]); };
    float2 dweight[VECTORS][PAIRS] = {}, dbias[VECTORS][PAIRS] = {};
#if CLUSTER > 1
    __shared__ Barrier arrived[2];
    begin_parts(&arrived[0], &arrived[1]);
#endif

    auto present = [&](long long i, int k) { return (WARP_ROWS == 1 || i < M) && inside(k); };
    // What this warp knows of row i, which has arrived.
    auto part_of = [&](long long i, int stage) -> Part {
        for (int k = 0; k < VECTORS; ++k)
            if (present(i, k) && !whole(k)) {
                auto own = [&](int j) { return has(k, j); };
                keep_own(place(stage, k), copied(i, k), x + i * x_stride + column(k), own);
                keep_own(place(stage, k) + ROWS * THREADS, copied(i, k), dy + i * dy_stride + column(k), own);
            }
        Vector<T> xs[VECTORS] = {}, dys[VECTORS] = {};
        float2 sum = {0.0f, 0.0f}, squares = sum, g_sum = sum, gc_sum = sum;  // of even and of odd columns
        for (int k = 0; k < VECTORS; ++k) {
            if (present(i, k)) xs[k] = *place(stage, k), dys[k] = place(stage, k)[ROWS * THREADS];
            for (int p = 0; p < PAIRS; ++p) {
                float2 x = to_float2(xs[k].at[p]);
                sum.x += x.x;
                sum.y += x.y;
            }
        }
        float mean = warp_sum<LANES>(sum.x + sum.y) / warp_columns;
        auto add = [&](int k, int p, bool first, bool second) {  // pair p of vector k: of which the row has none, one or both
            float2 x = to_float2(xs[k].at[p]), dy = to_float2(dys[k].at[p]), weight = weight_of(k, p);
            float2 centred = {first ? x.x - mean : 0.0f, second ? x.y - mean : 0.0f}, g = {dy.x * weight.x, dy.y * weight.y};
            squares.x += centred.x * centred.x;
            squares.y += centred.y * centred.y;
            g_sum.x += g.x;
            g_sum.y += g.y;
            gc_sum.x += g.x * centred.x;
            gc_sum.y += g.y * centred.y;
        };
        for (int k = 0; k < VECTORS; ++k) {
            if (!present(i, k)) continue;
            if (whole(k)) {
                for (int p = 0; p < PAIRS; ++p) add(k, p, true, true);
            } else {
                for (int p = 0; p < PAIRS; ++p) add(k, p, has(k, 2 * p), has(k, 2 * p + 1));
            }
        }
        return {mean, warp_sum<LANES>(squares.x + squares.y), warp_sum<LANES>(g_sum.x + g_sum.y),
                warp_sum<LANES>(gc_sum.x + gc_sum.y)};
    };
    // Parts of the block's row number `turn` meet between these two; those of the next one elsewhere. To come back to a place takes
    // two turns, and no warp gives a part before it has seen those of the row before.
    auto give = [&](Part part, int turn) {
#if CLUSTER > 1
        give_part(part, parts[turn % 2], warp, &arrived[turn % 2]);
#else
        if (lane == 0) parts[turn % 2][warp] = part;
#endif
    };
    auto met = [&](int turn) -> Part {
#if CLUSTER > 1
        wait(&arrived[turn % 2], turn / 2 % 2);
#else
        __syncthreads();
#endif
        return merged<PARTS>(parts[turn % 2][lane % PARTS], slot_columns, N);
    };

    // While the blocks of a cluster wait for each other, each reads its part of the next row.
    constexpr bool AHEAD = CLUSTER > 1 && STAGES > 1;
    if constexpr (AHEAD) {
        __pipeline_wait_prior(STAGES - 1);
        give(part_of(first, 0), 0);
    }
    int stage = 0, turn = 0;
    // The rows of a warp go on together, whether or not the last of them are there: sums need all of its lanes.
    for (long long i = first; i - threadIdx.y % WARP_ROWS < M; i += step, ++turn) {
        __pipeline_wait_prior(AHEAD ? STAGES - 2 : STAGES - 1);
        Part row = {};
        if constexpr (AHEAD) {
            const bool more = i + step < M;
            const Part next = more ? part_of(i + step, (stage + 1) % STAGES) : Part{};
            row = met(turn);
            if (more) give(next, turn + 1);
        } else {
            row = part_of(i, stage);
            if constexpr (PARTS > 1) {
                give(row, turn);
                row = met(turn);
            }
        }

        const float share = __fdividef(1.0f, N), rstd = rstd_of(row.squares * share, eps);
        const float g_factor = -rstd * (row.g * share), gn_factor = -rstd * (row.gc * rstd * share);
        for (int k = 0; k < VECTORS; ++k)
            if (present(i, k)) {
                // Read again: kept in registers since the sums, x and dy would crowd out dweight and dbias.
                Vector<T> out, xs = *place(stage, k), dys = place(stage, k)[ROWS * THREADS];
                for (int p = 0; p < PAIRS; ++p) {
                    float2 x = to_float2(xs.at[p]), dy = to_float2(dys.at[p]), weight = weight_of(k, p);
                    float2 n = {(x.x - row.mean) * rstd, (x.y - row.mean) * rstd};
                    dweight[k][p].x += dy.x * n.x;
                    dweight[k][p].y += dy.y * n.y;
                    dbias[k][p].x += dy.x;
                    dbias[k][p].y += dy.y;
                    from_float2(out.at[p], {dy.x * weight.x * rstd + g_factor + n.x * gn_factor,
                                            dy.y * weight.y * rstd + g_factor + n.y * gn_factor});
                }
                T* to = dx + i * N + column(k);
                if (whole(k)) {
                    store(to, out);
                } else {
                    for (int j = 0; j < SIZE; ++j)
                        if (has(k, j)) to[j] = ((T*)&out)[j];
                }
            }
        fetch(i + STAGES * step, stage);  // into the place of this row
        stage = (stage + 1) % STAGES;
    }

    partial += (long long)group * 2 * N;
    if constexpr (ROWS > 1 || PEELED) {
        static_assert(CLUSTER == 1 || ROWS == 1, "rows side by side start at different places");
        // Rows side by side, and threads whose peeled rows start at different places, put their sums into the space of the queue.
        __pipeline_wait_prior(0);
        const int origin = CLUSTER > 1 ? warp / WARPS * VECTORS * THREADS * SIZE - before : 0;
        met_by_column<SIZE, THREADS, ROWS>(dweight, (float*)queue, partial, origin, N, column, inside, has);
        met_by_column<SIZE, THREADS, ROWS>(dbias, (float*)queue, partial + N, origin, N, column, inside, has);
    } else {
        for (int k = 0; k < VECTORS; ++k)
            for (int p = 0; p < PAIRS && inside(k); p += 2) {
                auto store = [&](float* to, const float2* pairs) {
                    *(float4*)(to + column(k) + 2 * p) = {pairs[p].x, pairs[p].y, pairs[p + 1].x, pairs[p + 1].y};
                };
                store(partial, dweight[k]);
                store(partial + N, dbias[k]);
            }
    }
}
