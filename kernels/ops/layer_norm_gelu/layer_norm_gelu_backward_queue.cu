// Level 5: layer norm and GELU in CUDA C, backward: the rung that reads dy and x once, by 16-byte loads.
// The formulas stand in triton_backward.py; layer_norm_backward_vector.cu is the same for layer norm alone.
//
// A block walks from row to row. Its threads keep their columns, so the sums for dweight and dbias stay in registers. Rows on
// their way queue in shared memory; a thread reads only what it copied itself, so the queue needs no barrier. A row costs two
// barriers, one for what is known of x, and one for the sums over g = dh * weight, which take the mean and rstd. Of narrow rows
// a warp has one or several, and no barrier is needed.
//
// CLUSTER blocks share a row, each holding part of its columns; with more than 1 they exchange what they know through each
// other's shared memory, which only a GPU of sm_90 or newer does.
//
// PEELED rows may start and end within a vector, those of dy, x and dx alike, and a block steps over whole vectors from one of
// its rows to the next: so all rows of a thread start at the same place within one, and its columns stay its own. A vector that
// is shared with a neighbouring row is copied as a whole; what is the neighbour's in it then counts as zeros.

#include <cuda_pipeline_primitives.h>

#include "activations.cuh"
#include "cluster.cuh"
#if CLUSTER > 1
#include "cluster_parts.cuh"
#endif
#include "met_by_column.cuh"
#include "peeled.cuh"
#include "reductions.cuh"
#include "vectors.cuh"

// Of the x in some columns: a value near their mean, what that lacks, and the sum of (x - mean)². Blocks can send each
// other 8 or 16 bytes.
struct alignas(CLUSTER > 1 ? 16 : 4) Part {
    float near, rest, squares;
};

// Of the whole row of N columns, from WIDTH parts of it, of which that of this lane has so many.
template <int WIDTH>
__device__ Part merged(const Part* parts, float columns, int N)
{
    Part part = parts[threadIdx.x % WIDTH];
    const float near = parts[0].near;
    part.rest += part.near - near;
    const float rest = warp_sum<WIDTH>(columns * part.rest) / N, apart = part.rest - rest;
    return {near, rest, warp_sum<WIDTH>(part.squares + columns * apart * apart)};
}

// What all warps that share a row know of it, in a place each, and the barrier that counts what has come.
template <typename P, int PARTS>
struct Known {
    P parts[PARTS];
#if CLUSTER > 1
    Barrier arrived;
#endif
};

// Told to all blocks of the cluster: what this warp knows, in the place of `warp`, of a row of that parity.
template <typename P, int PARTS>
__device__ void tell(Known<P, PARTS>& known, int warp, P part, int parity)
{
#if CLUSTER > 1
    give_part(part, known.parts, warp, &known.arrived);
    wait(&known.arrived, parity);
#else
    if (threadIdx.x % 32 == 0) known.parts[warp] = part;
    __syncthreads();
#endif
}

// A multiple of CLUSTER blocks of (THREADS, ROWS) threads, whole warps; THREADS is a power of two, and ROWS is 1 if that is more
// than 32. VECTORS is no more than a row asks for. partial is G×2×N, with G = gridDim.x / CLUSTER. (2 * STAGES + 2) * VECTORS *
// THREADS * ROWS * 16 bytes of dynamic shared memory.
template <typename T, int VECTORS, int THREADS, int ROWS, int STAGES, int BLOCKS, bool FULL, bool PEELED = false>
__global__ void CLUSTER_DIMS __launch_bounds__(THREADS* ROWS, BLOCKS)
    layer_norm_gelu_backward_queue(const T* dy, const T* x, const T* weight, const T* bias, T* dx, float* partial,
                                   long long dy_stride, long long x_stride, long long M, int N, float eps)
{
    constexpr int SIZE = Vector<T>::SIZE, PAIRS = Vector<T>::PAIRS;
    constexpr int LANES = THREADS < 32 ? THREADS : 32, WARP_ROWS = 32 / LANES;  // of a warp: lanes of a row, and rows
    constexpr int WARPS = THREADS / LANES, PARTS = CLUSTER * WARPS;
    extern __shared__ uint4 queue[];
    // A row has an exchange in each. No warp tells anything before it has read what all told in the exchange before: who has
    // seen all of one knows that nobody reads any more what was told in the one before it, and where the next one goes.
    __shared__ Known<Part, PARTS> known;
    __shared__ Known<float2, PARTS> g_known;
    const int lane = threadIdx.x % 32, cluster_block = blockIdx.x % CLUSTER, warp = cluster_block * WARPS + threadIdx.x / 32;
    const int G = gridDim.x / CLUSTER, group = blockIdx.x / CLUSTER;
    const long long first = (long long)group * ROWS + threadIdx.y, step = (long long)G * ROWS;
    // The columns of the row before that are in the first vector of each row.
    const int before = PEELED ? first * N % SIZE : 0;

    // Of a thread's vectors the last alone may be behind the row's end, and two of them beyond it in part; in a cluster's last
    // block any may.
    auto column = [&](int k) { return ((cluster_block * VECTORS + k) * THREADS + (int)threadIdx.x) * SIZE - before; };
    auto inside = [&](int k) { return FULL || (CLUSTER == 1 && k < VECTORS - 1) || column(k) < N; };
    auto has = [&](int k, int j) { return !PEELED || (0 <= column(k) + j && column(k) + j < N); };
    auto whole = [&](int k) {
        return !PEELED || ((k > 0 || has(k, 0)) && ((CLUSTER == 1 && k < VECTORS - 2) || has(k, SIZE - 1)));
    };
    auto columns_of = [&](int warp) {
        int columns = 0;
        for (int k = 0; k < VECTORS; ++k) {
            const int begin = ((warp / WARPS * VECTORS + k) * WARPS + warp % WARPS) * LANES * SIZE - before;
            columns += max(min(N, begin + LANES * SIZE) - max(begin, 0), 0);
        }
        return columns;
    };
    // A warp without columns has sums of zeros.
    const float slot_columns = columns_of(lane % PARTS), warp_share = __fdividef(1.0f, max(columns_of(warp), 1));
    const float share = __fdividef(1.0f, N);

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

    // Behind the queue: in registers they would crowd out dweight and dbias.
    auto weights = [&](int k) { return place(STAGES, k); };
    auto biases = [&](int k) { return place(STAGES, k) + ROWS * THREADS; };
    for (int k = 0; k < VECTORS; ++k)
        if (inside(k)) {
            *weights(k) = PEELED ? load_columns_at(weight, column(k), N, 1.0f) : load(weight + column(k));
            *biases(k) = PEELED ? load_columns_at(bias, column(k), N, 0.0f) : load(bias + column(k));
        }
    float2 dweight[VECTORS][PAIRS] = {}, dbias[VECTORS][PAIRS] = {};
#if CLUSTER > 1
    begin_parts(&known.arrived, &g_known.arrived);
#endif

    int stage = 0, parity = 0;
    // The rows of a warp go on together, whether or not the last of them are there: sums need all of its lanes.
    for (long long i = first; i - threadIdx.y % WARP_ROWS < M; i += step) {
        auto present = [&](int k) { return (WARP_ROWS == 1 || i < M) && inside(k); };
        __pipeline_wait_prior(STAGES - 1);
        for (int k = 0; k < VECTORS; ++k)
            if (present(k) && !whole(k)) {
                auto own = [&](int j) { return has(k, j); };
                keep_own(place(stage, k), copied(i, k), x + i * x_stride + column(k), own);
                keep_own(place(stage, k) + ROWS * THREADS, copied(i, k), dy + i * dy_stride + column(k), own);
            }
        float2 sum = {0.0f, 0.0f}, rests = sum, squares = sum;  // of even and of odd columns: two chains of additions, not one
        for (int k = 0; k < VECTORS; ++k)
            if (present(k)) {
                const Vector<T> xs = *place(stage, k);
                for (int p = 0; p < PAIRS; ++p) {
                    const float2 x = to_float2(xs.at[p]);
                    sum.x += x.x;
                    sum.y += x.y;
                }
            }
        Part row = {warp_sum<LANES>(sum.x + sum.y) * warp_share};
        for (int k = 0; k < VECTORS; ++k)
            if (present(k)) {
                const Vector<T> xs = *place(stage, k);
                for (int p = 0; p < PAIRS; ++p) {
                    const float2 x = to_float2(xs.at[p]);
                    float2 left = {x.x - row.near, x.y - row.near};
                    if (!whole(k)) {
                        if (!has(k, 2 * p)) left.x = 0.0f;
                        if (!has(k, 2 * p + 1)) left.y = 0.0f;
                    }
                    rests.x += left.x;
                    rests.y += left.y;
                    squares.x += left.x * left.x;
                    squares.y += left.y * left.y;
                }
            }
        const float rest = warp_sum<LANES>(rests.x + rests.y);
        row.rest = rest * warp_share;
        row.squares = warp_sum<LANES>(squares.x + squares.y) - rest * row.rest;
        if constexpr (PARTS > 1) {
            tell(known, warp, row, parity);
            row = merged<PARTS>(known.parts, slot_columns, N);
        }
        const float rstd = rstd_of(row.squares * share, eps);
        auto normalised = [&](float2 x) {
            return float2{(x.x - row.near - row.rest) * rstd, (x.y - row.near - row.rest) * rstd};
        };

        float2 g_sum = {0.0f, 0.0f}, gn_sum = g_sum, dhs[VECTORS][PAIRS];
        for (int k = 0; k < VECTORS; ++k)
            if (present(k)) {
                const Vector<T> xs = *place(stage, k), dys = place(stage, k)[ROWS * THREADS];
                const Vector<T> scale = *weights(k), shift = *biases(k);
                for (int p = 0; p < PAIRS; ++p) {
                    const float2 n = normalised(to_float2(xs.at[p])), dy = to_float2(dys.at[p]);
                    const float2 weight = to_float2(scale.at[p]), bias = to_float2(shift.at[p]);
                    const float2 dh = {dy.x * activated<T, GELU>(n.x * weight.x + bias.x).slope,
                                       dy.y * activated<T, GELU>(n.y * weight.y + bias.y).slope};
                    g_sum.x += dh.x * weight.x;
                    g_sum.y += dh.y * weight.y;
                    gn_sum.x += dh.x * weight.x * n.x;
                    gn_sum.y += dh.y * weight.y * n.y;
                    dhs[k][p] = dh;
                }
            }
        float2 g_row = {warp_sum<LANES>(g_sum.x + g_sum.y), warp_sum<LANES>(gn_sum.x + gn_sum.y)};
        if constexpr (PARTS > 1) {
            tell(g_known, warp, g_row, parity);
            g_row = g_known.parts[lane % PARTS];
            g_row = {warp_sum<PARTS>(g_row.x), warp_sum<PARTS>(g_row.y)};
        }
        const float g_factor = -rstd * (g_row.x * share), gn_factor = -rstd * (g_row.y * share);
        for (int k = 0; k < VECTORS; ++k)
            if (present(k)) {
                const Vector<T> xs = *place(stage, k), scale = *weights(k);
                Vector<T> out;
                for (int p = 0; p < PAIRS; ++p) {
                    const float2 n = normalised(to_float2(xs.at[p])), dh = dhs[k][p], weight = to_float2(scale.at[p]);
                    dweight[k][p].x += dh.x * n.x;
                    dweight[k][p].y += dh.y * n.y;
                    dbias[k][p].x += dh.x;
                    dbias[k][p].y += dh.y;
                    from_float2(out.at[p], {dh.x * weight.x * rstd + g_factor + n.x * gn_factor,
                                            dh.y * weight.y * rstd + g_factor + n.y * gn_factor});
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
        parity ^= 1;
    }

    // Rows side by side, and threads whose peeled rows start at different places, put their sums into the space of the queue.
    __pipeline_wait_prior(0);
    partial += 2ll * group * N;
    const int origin = CLUSTER > 1 ? cluster_block * VECTORS * THREADS * SIZE - before : 0;
    met_by_column<SIZE, THREADS, ROWS>(dweight, (float*)queue, partial, origin, N, column, inside, has);
    met_by_column<SIZE, THREADS, ROWS>(dbias, (float*)queue, partial + N, origin, N, column, inside, has);
}
