// Level 5: layer norm in CUDA C, backward: the rungs that read dy and x once, by 16-byte loads.
// The formulas stand in layer_norm_backward.cu.
//
// A block walks from row to row. Its threads keep their columns, so the sums for dweight and dbias stay in registers. Rows
// on their way queue in shared memory; a thread reads only what it copied itself, so the queue needs no barrier. A row
// costs one barrier: each warp sums its part of the row around its own mean, and the parts are merged.
//
// CLUSTER blocks share a row, each holding part of its columns; with more than 1 they exchange their parts through each
// other's shared memory, which only a GPU of sm_90 or newer does.

#include <cuda_pipeline_primitives.h>

#include "reductions.cuh"
#include "vectors.cuh"

#if CLUSTER > 1
#include <cooperative_groups.h>
#define OF_CLUSTER __cluster_dims__(CLUSTER)
#else
#define OF_CLUSTER
#endif

// Part of a row: its mean, and sums of its columns: of (x - mean)², of g and of g * (x - mean).
struct alignas(16) Part {
    float mean, squares, g, gc;
};

// The whole row of N columns from WIDTH parts of it, one a lane, with `columns` each (Chan, Golub and LeVeque 1979,
// "Updating formulae and a pairwise algorithm for computing sample variances").
template <int WIDTH>
__device__ Part merged(Part part, float columns, int N)
{
    float mean = warp_sum<WIDTH>(columns * part.mean) / N;
    float apart = part.mean - mean;
    return {mean, warp_sum<WIDTH>(part.squares + columns * apart * apart), warp_sum<WIDTH>(part.g),
            warp_sum<WIDTH>(part.gc + part.g * apart)};
}

// A multiple of CLUSTER blocks of (THREADS, ROWS) threads; ROWS is 1 unless THREADS is 32. partial is G×2×N, as for the
// kernel partials, with G = gridDim.x / CLUSTER. 2 * STAGES * VECTORS * THREADS * ROWS * 16 bytes of dynamic shared memory.
template <typename T, int VECTORS, int THREADS, int ROWS, int STAGES, int BLOCKS, bool FULL>
__global__ void OF_CLUSTER __launch_bounds__(THREADS* ROWS, BLOCKS)
    layer_norm_backward_vector(const T* dy, const T* x, const T* weight, T* dx, float* partial, long long dy_stride,
                               long long x_stride, long long M, int N, float eps)
{
    constexpr int SIZE = Vector<T>::SIZE, PAIRS = Vector<T>::PAIRS, WARPS = THREADS / 32, PARTS = CLUSTER * WARPS;
    extern __shared__ uint4 queue[];
    __shared__ Part parts[2][PARTS];
    const int lane = threadIdx.x % 32, warp = blockIdx.x % CLUSTER * WARPS + threadIdx.x / 32;
    const int G = gridDim.x / CLUSTER, group = blockIdx.x / CLUSTER;

    // Vector k of this thread, and of a warp of the row, is at these columns.
    auto column = [&](int k) { return ((warp / WARPS * VECTORS + k) * THREADS + (int)threadIdx.x) * SIZE; };
    auto inside = [&](int k) { return FULL || column(k) < N; };
    auto columns_of = [&](int warp) {
        int columns = 0;
        for (int k = 0; k < VECTORS; ++k) {
            int first = ((warp / WARPS * VECTORS + k) * WARPS + warp % WARPS) * 32 * SIZE;
            columns += min(max(N - first, 0), 32 * SIZE);
        }
        return fmaxf(columns, 1);  // a part without columns is all zeros
    };
    const float of_warp = columns_of(warp), of_slot = columns_of(lane % PARTS);

    auto place = [&](int stage, int k) {  // of x; of dy behind it
        return (Vector<T>*)queue + ((stage * VECTORS + k) * 2 * ROWS + threadIdx.y) * THREADS + threadIdx.x;
    };
    auto fetch = [&](long long i, int stage) {
        for (int k = 0; k < VECTORS; ++k)
            if (i < M && inside(k)) {
                __pipeline_memcpy_async(place(stage, k), x + i * x_stride + column(k), 16);
                __pipeline_memcpy_async(place(stage, k) + ROWS * THREADS, dy + i * dy_stride + column(k), 16);
            }
        __pipeline_commit();
    };
    const long long first = (long long)group * ROWS + threadIdx.y, step = (long long)G * ROWS;
    for (int stage = 0; stage < STAGES; ++stage) fetch(first + stage * step, stage);

    Vector<T> weights[VECTORS];
    for (int k = 0; k < VECTORS; ++k)
        if (inside(k)) weights[k] = load_columns(weight, column(k), 1.0f);
    float2 dweight[VECTORS][PAIRS] = {}, dbias[VECTORS][PAIRS] = {};
#if CLUSTER > 1
    auto cluster = cooperative_groups::this_cluster();
    cluster.sync();  // all blocks of it are there before one writes to another
#endif

    int stage = 0, parity = 0;
    for (long long i = first; i < M; i += step) {
        __pipeline_wait_prior(STAGES - 1);
        Vector<T> xs[VECTORS] = {}, dys[VECTORS] = {};
        float2 sum = {0.0f, 0.0f}, squares = sum, g_sum = sum, gc_sum = sum;  // of even and of odd columns
        for (int k = 0; k < VECTORS; ++k) {
            if (inside(k)) xs[k] = *place(stage, k), dys[k] = place(stage, k)[ROWS * THREADS];
            for (int p = 0; p < PAIRS; ++p) {
                float2 x = to_float2(xs[k].at[p]);
                sum.x += x.x;
                sum.y += x.y;
            }
        }
        float mean = warp_sum(sum.x + sum.y) / of_warp;
        for (int k = 0; k < VECTORS; ++k)
            if (inside(k))
                for (int p = 0; p < PAIRS; ++p) {
                    float2 x = to_float2(xs[k].at[p]), dy = to_float2(dys[k].at[p]);
                    float2 weight = to_float2(weights[k].at[p]);
                    float2 centred = {x.x - mean, x.y - mean}, g = {dy.x * weight.x, dy.y * weight.y};
                    squares.x += centred.x * centred.x;
                    squares.y += centred.y * centred.y;
                    g_sum.x += g.x;
                    g_sum.y += g.y;
                    gc_sum.x += g.x * centred.x;
                    gc_sum.y += g.y * centred.y;
                }
        Part row = {mean, warp_sum(squares.x + squares.y), warp_sum(g_sum.x + g_sum.y), warp_sum(gc_sum.x + gc_sum.y)};
        if constexpr (PARTS > 1) {
#if CLUSTER > 1
            if (lane < CLUSTER) *cluster.map_shared_rank(&parts[parity][warp], lane) = row;
            cluster.sync();
#else
            if (lane == 0) parts[parity][warp] = row;
            __syncthreads();
#endif
            // The next row's parts go elsewhere, and to come back here takes two barriers.
            row = merged<PARTS>(parts[parity][lane % PARTS], of_slot, N);
            parity ^= 1;
        }

        float rstd = rsqrtf(row.squares / N + eps), of_g = -rstd * (row.g / N), of_gn = -rstd * (row.gc * rstd / N);
        for (int k = 0; k < VECTORS; ++k)
            if (inside(k)) {
                // Read again: kept in registers since the sums, x and dy would crowd out dweight and dbias.
                Vector<T> out, xs = *place(stage, k), dys = place(stage, k)[ROWS * THREADS];
                for (int p = 0; p < PAIRS; ++p) {
                    float2 x = to_float2(xs.at[p]), dy = to_float2(dys.at[p]), weight = to_float2(weights[k].at[p]);
                    float2 n = {(x.x - row.mean) * rstd, (x.y - row.mean) * rstd};
                    dweight[k][p].x += dy.x * n.x;
                    dweight[k][p].y += dy.y * n.y;
                    dbias[k][p].x += dy.x;
                    dbias[k][p].y += dy.y;
                    from_float2(out.at[p], {dy.x * weight.x * rstd + of_g + n.x * of_gn,
                                            dy.y * weight.y * rstd + of_g + n.y * of_gn});
                }
                store(dx + i * N + column(k), out);
            }
        fetch(i + STAGES * step, stage);  // into the place of this row
        stage = (stage + 1) % STAGES;
    }

    // The sums of the ROWS rows side by side, into those of the last, one after the other in the space of the queue.
    float4* of_columns = (float4*)queue + threadIdx.x;
    if constexpr (ROWS > 1) {
        __pipeline_wait_prior(0);
        for (int y = 0; y < ROWS; ++y) {
            __syncthreads();
            if (threadIdx.y == y)
                for (int k = 0; k < VECTORS; ++k)
                    for (int p = 0; p < PAIRS; ++p) {
                        float4& both = of_columns[(k * PAIRS + p) * THREADS];
                        if (y > 0) {
                            dweight[k][p].x += both.x, dweight[k][p].y += both.y;
                            dbias[k][p].x += both.z, dbias[k][p].y += both.w;
                        }
                        both = {dweight[k][p].x, dweight[k][p].y, dbias[k][p].x, dbias[k][p].y};
                    }
        }
    }
    partial += (long long)group * 2 * N;
    if (threadIdx.y == ROWS - 1)
        for (int k = 0; k < VECTORS; ++k)
            for (int p = 0; p < PAIRS && inside(k); ++p) {
                *(float2*)(partial + column(k) + 2 * p) = dweight[k][p];
                *(float2*)(partial + N + column(k) + 2 * p) = dbias[k][p];
            }
}
