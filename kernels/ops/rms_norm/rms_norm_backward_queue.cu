// Level 5: RMS norm in CUDA C, backward: the rungs that read dy and x once, by 16-byte loads.
//
//     dx_ij = rstd_i * (g_ij - n_ij * mean of g * n),    dweight_j = sum_i dy_ij * n_ij,    n_ij = x_ij * rstd_i, g = dy * weight
//
// A block walks from row to row. Its threads keep their columns, so the sums for dweight stay in registers. Rows on their way
// queue in shared memory; a thread reads only what it copied itself, so the queue needs no barrier. A row costs one barrier:
// each warp adds up its part of the row, and the parts are added.
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

// A multiple of CLUSTER blocks of (THREADS, ROWS) threads; ROWS is 1 unless THREADS is 32. partial is G×1×N, with G = gridDim.x /
// CLUSTER. 2 * STAGES * VECTORS * THREADS * ROWS * 16 bytes of dynamic shared memory.
template <typename T, int VECTORS, int THREADS, int ROWS, int STAGES, int BLOCKS, bool FULL>
__global__ void OF_CLUSTER __launch_bounds__(THREADS* ROWS, BLOCKS)
    rms_norm_backward_queue(const T* dy, const T* x, const T* weight, T* dx, float* partial, long long dy_stride,
                            long long x_stride, long long M, int N, float eps)
{
    constexpr int SIZE = Vector<T>::SIZE, PAIRS = Vector<T>::PAIRS, WARPS = THREADS / 32, PARTS = CLUSTER * WARPS;
    extern __shared__ uint4 queue[];
    __shared__ float2 parts[2][PARTS];  // of x * x and of g * x
    const int lane = threadIdx.x % 32, of_cluster = blockIdx.x % CLUSTER, warp = of_cluster * WARPS + threadIdx.x / 32;
    const int G = gridDim.x / CLUSTER, group = blockIdx.x / CLUSTER;

    auto column = [&](int k) { return ((of_cluster * VECTORS + k) * THREADS + (int)threadIdx.x) * SIZE; };
    auto inside = [&](int k) { return FULL || column(k) < N; };
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
    float2 dweight[VECTORS][PAIRS] = {};
#if CLUSTER > 1
    auto cluster = cooperative_groups::this_cluster();
    cluster.sync();  // all blocks of it are there before one writes to another
#endif

    int stage = 0, parity = 0;
    for (long long i = first; i < M; i += step) {
        __pipeline_wait_prior(STAGES - 1);
        float2 squares = {0.0f, 0.0f}, products = squares;  // of even and of odd columns: two chains of additions, not one
        for (int k = 0; k < VECTORS; ++k)
            if (inside(k)) {
                Vector<T> xs = *place(stage, k), dys = place(stage, k)[ROWS * THREADS];
                for (int p = 0; p < PAIRS; ++p) {
                    float2 x = to_float2(xs.at[p]), dy = to_float2(dys.at[p]), weight = to_float2(weights[k].at[p]);
                    squares.x += x.x * x.x;
                    squares.y += x.y * x.y;
                    products.x += dy.x * weight.x * x.x;
                    products.y += dy.y * weight.y * x.y;
                }
            }
        float2 row = {warp_sum(squares.x + squares.y), warp_sum(products.x + products.y)};
        if constexpr (PARTS > 1) {
#if CLUSTER > 1
            if (lane < CLUSTER) *cluster.map_shared_rank(&parts[parity][warp], lane) = row;
            cluster.sync();
#else
            if (lane == 0) parts[parity][warp] = row;
            __syncthreads();
#endif
            // The next row's parts go elsewhere, and to come back here takes two barriers.
            row = parts[parity][lane % PARTS];
            row = {warp_sum<PARTS>(row.x), warp_sum<PARTS>(row.y)};
            parity ^= 1;
        }

        float rstd = rsqrtf(row.x / N + eps), of_gn = -rstd * (row.y / N * rstd);
        for (int k = 0; k < VECTORS; ++k)
            if (inside(k)) {
                // Read again: kept in registers since the sums, x and dy would crowd out dweight.
                Vector<T> out, xs = *place(stage, k), dys = place(stage, k)[ROWS * THREADS];
                for (int p = 0; p < PAIRS; ++p) {
                    float2 x = to_float2(xs.at[p]), dy = to_float2(dys.at[p]), weight = to_float2(weights[k].at[p]);
                    float2 n = {x.x * rstd, x.y * rstd};
                    dweight[k][p].x += dy.x * n.x;
                    dweight[k][p].y += dy.y * n.y;
                    from_float2(out.at[p], {dy.x * weight.x * rstd + n.x * of_gn, dy.y * weight.y * rstd + n.y * of_gn});
                }
                store(dx + i * N + column(k), out);
            }
        fetch(i + STAGES * step, stage);  // into the place of this row
        stage = (stage + 1) % STAGES;
    }

    // The sums of the ROWS rows side by side, into those of the last, one after the other in the space of the queue.
    if constexpr (ROWS > 1) {
        float2* of_columns = (float2*)queue + threadIdx.x;
        __pipeline_wait_prior(0);
        for (int y = 0; y < ROWS; ++y) {
            __syncthreads();
            if (threadIdx.y == y)
                for (int k = 0; k < VECTORS; ++k)
                    for (int p = 0; p < PAIRS; ++p) {
                        float2& sum = of_columns[(k * PAIRS + p) * THREADS];
                        if (y > 0) dweight[k][p].x += sum.x, dweight[k][p].y += sum.y;
                        sum = dweight[k][p];
                    }
        }
    }
    partial += (long long)group * N;
    if (threadIdx.y == ROWS - 1)
        for (int k = 0; k < VECTORS; ++k)
            for (int p = 0; p < PAIRS && inside(k); ++p) *(float2*)(partial + column(k) + 2 * p) = dweight[k][p];
}
