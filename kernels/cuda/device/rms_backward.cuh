// The backward of an RMS norm over rows of x, or of x as a sum that is returned beside its norm, which reads all rows once, by
// 16-byte loads.
//
//     dx_ij = rstd_i * (g_ij - n_ij * mean of g * n),    dweight_j = sum_i dy_ij * n_ij,    n_ij = x_ij * rstd_i, g = dy * weight
//
// With a SUM, dh is the gradient of x itself, which is added to dx, and dx is what each summand has: it is dresidual, too.
//
// A block walks from row to row. Its threads keep their columns, so the sums for dweight stay in registers. Rows on their way
// queue in shared memory; a thread reads only what it copied itself, so the queue needs no barrier. A row costs one barrier:
// each warp adds up its part of the row, and the parts are added. Of narrow rows a warp has several, each in as many lanes as
// it has vectors, and no barrier is needed.
//
// CLUSTER blocks share a row, each holding part of its columns; with more than 1 they exchange their parts through each
// other's shared memory, which only a GPU of sm_90 or newer does.
//
// PEELED rows may start and end within a vector, those of all matrices alike, and a block steps over whole vectors from one of
// its rows to the next: so all rows of a thread start at the same place within one, and its columns stay its own. A vector that
// is shared with a neighbouring row is copied as a whole; what is the neighbour's in it then counts as zeros.
#pragma once

#include <cuda_pipeline_primitives.h>

#include "cluster.cuh"
#if CLUSTER > 1
#include "cluster_parts.cuh"
#endif
#include "met_by_column.cuh"
#include "peeled.cuh"
#include "reductions.cuh"
#include "vectors.cuh"

// A multiple of CLUSTER blocks of (THREADS, ROWS) threads, whole warps; THREADS is a power of two, and ROWS is 1 if that is
// more than 32. partial is G×1×N, with G = gridDim.x / CLUSTER. STAGES * VECTORS * THREADS * ROWS * 16 bytes of dynamic shared
// memory for each matrix that is read.
template <bool SUM, int VECTORS, int THREADS, int ROWS, int STAGES, bool FULL, bool PEELED, typename T>
__device__ void rms_backward(const T* dy, const T* dh, const T* x, const T* weight, T* dx, T* dresidual, float* partial,
                             long long dy_stride, long long dh_stride, long long x_stride, long long M, int N, float eps)
{
    constexpr int SIZE = Vector<T>::SIZE, PAIRS = Vector<T>::PAIRS, MATRICES = SUM ? 3 : 2;
    constexpr int LANES = THREADS < 32 ? THREADS : 32, WARP_ROWS = 32 / LANES;  // of a warp: lanes of a row, and rows
    constexpr int WARPS = THREADS / LANES, PARTS = CLUSTER * WARPS;
    extern __shared__ uint4 queue[];
    __shared__ float2 parts[2][PARTS];  // of x * x and of g * x
    const int lane = threadIdx.x % 32, cluster_block = blockIdx.x % CLUSTER, warp = cluster_block * WARPS + threadIdx.x / 32;
    const int G = gridDim.x / CLUSTER, group = blockIdx.x / CLUSTER;

    const long long first = (long long)group * ROWS + threadIdx.y, step = (long long)G * ROWS;
    // The columns of the row before that are in the first vector of each row.
    const int before = PEELED ? first * N % SIZE : 0;

    // Of a thread's vectors the last alone may be behind the row's end, and the last two beyond it in part; in a cluster's last
    // block any may.
    auto column = [&](int k) { return ((cluster_block * VECTORS + k) * THREADS + (int)threadIdx.x) * SIZE - before; };
    auto inside = [&](int k) { return FULL || (CLUSTER == 1 && k < VECTORS - 1) || column(k) < N; };
    auto has = [&](int k, int j) { return !PEELED || (0 <= column(k) + j && column(k) + j < N); };
    auto whole = [&](int k) {
        return !PEELED || ((k > 0 || has(k, 0)) && ((CLUSTER == 1 && k < VECTORS - 2) || has(k, SIZE - 1)));
    };
    auto place = [&](int stage, int k) {  // of x; of dy and dh behind it
        return (Vector<T>*)queue + ((stage * VECTORS + k) * MATRICES * ROWS + threadIdx.y) * THREADS + threadIdx.x;
    };
    auto from = [&](int matrix, long long i) {
        return matrix == 0 ? x + i * x_stride : matrix == 1 ? dy + i * dy_stride : dh + i * dh_stride;
    };
    // Behind the last row there is nothing to copy.
    auto copied = [&](long long i, int k) { return i < M && inside(k) && (i < M - 1 || whole(k) || has(k, SIZE - 1)); };
    auto fetch = [&](long long i, int stage) {
        for (int k = 0; k < VECTORS; ++k)
            for (int m = 0; m < MATRICES && copied(i, k); ++m)
                __pipeline_memcpy_async(place(stage, k) + m * ROWS * THREADS, from(m, i) + column(k), 16);
        __pipeline_commit();
    };
    for (int stage = 0; stage < STAGES; ++stage) fetch(first + stage * step, stage);

    Vector<T> weights[VECTORS];
    if constexpr (PEELED) {
        load_columns_at(weights, weight, column, N, 1.0f);
    } else {
        for (int k = 0; k < VECTORS; ++k)
            if (inside(k)) weights[k] = load_columns(weight, column(k), 1.0f);
    }
    float2 dweight[VECTORS][PAIRS] = {};
    // Peeled rows' blocks send each other parts. Whole rows, which memory holds up, are faster where blocks keep in step
    // (book/results/tried/peeled_rows.json).
    constexpr bool SENDING = CLUSTER > 1 && PEELED;
#if CLUSTER > 1
    __shared__ Barrier arrived[2];
    begin_parts(&arrived[0], &arrived[1]);
#endif

    auto present = [&](long long i, int k) { return (WARP_ROWS == 1 || i < M) && inside(k); };
    // What this warp knows of row i, which has arrived.
    auto part_of = [&](long long i, int stage) -> float2 {
        for (int k = 0; k < VECTORS; ++k)
            for (int m = 0; m < MATRICES && present(i, k) && !whole(k); ++m)
                keep_own(place(stage, k) + m * ROWS * THREADS, copied(i, k), from(m, i) + column(k),
                         [&](int j) { return has(k, j); });
        float2 squares = {0.0f, 0.0f}, products = squares;  // of even and of odd columns: two chains of additions, not one
        for (int k = 0; k < VECTORS; ++k)
            if (present(i, k)) {
                Vector<T> xs = *place(stage, k), dys = place(stage, k)[ROWS * THREADS];
                for (int p = 0; p < PAIRS; ++p) {
                    float2 x = to_float2(xs.at[p]), dy = to_float2(dys.at[p]), weight = to_float2(weights[k].at[p]);
                    squares.x += x.x * x.x;
                    squares.y += x.y * x.y;
                    products.x += dy.x * weight.x * x.x;
                    products.y += dy.y * weight.y * x.y;
                }
            }
        return {warp_sum<LANES>(squares.x + squares.y), warp_sum<LANES>(products.x + products.y)};
    };
    // The parts of a row meet between these two; those of the next one elsewhere. To come back to a place takes two rows, and
    // no warp gives a part before it has read those of the row before: who has seen all parts of a row knows that nobody reads
    // those of the row before any more.
    auto give = [&](float2 part, int parity) {
#if CLUSTER > 1
        if constexpr (SENDING)
            give_part(part, parts[parity], warp, &arrived[parity]);
        else if (lane < CLUSTER)
            *cooperative_groups::this_cluster().map_shared_rank(&parts[parity][warp], lane) = part;
#else
        if (lane == 0) parts[parity][warp] = part;
#endif
    };
    int stage = 0, parity = 0, phase = 0;  // of the block's rows, and of those of one parity
    auto met = [&]() -> float2 {
#if CLUSTER > 1
        if constexpr (SENDING)
            wait(&arrived[parity], phase);
        else
            cooperative_groups::this_cluster().sync();
#else
        __syncthreads();
#endif
        const float2 part = parts[parity][lane % PARTS];
        return {warp_sum<PARTS>(part.x), warp_sum<PARTS>(part.y)};
    };

    // While the blocks of a cluster wait for each other, each reads its part of the next row.
    constexpr bool AHEAD = SENDING && STAGES > 1;
    if constexpr (AHEAD) {
        __pipeline_wait_prior(STAGES - 1);
        give(part_of(first, 0), 0);
    }
    // The rows of a warp go on together, whether or not the last of them are there: sums need all of its lanes.
    for (long long i = first; i - threadIdx.y % WARP_ROWS < M; i += step) {
        __pipeline_wait_prior(AHEAD ? STAGES - 2 : STAGES - 1);
        float2 row = {};
        if constexpr (AHEAD) {
            const bool more = i + step < M;
            const float2 next = more ? part_of(i + step, (stage + 1) % STAGES) : float2{};
            row = met();
            if (more) give(next, parity ^ 1);
        } else {
            row = part_of(i, stage);
            if constexpr (PARTS > 1) {
                give(row, parity);
                row = met();
            }
        }
        phase ^= parity;
        parity ^= 1;

        float rstd = rsqrtf(row.x / N + eps), gn_factor = -rstd * (row.y / N * rstd);
        for (int k = 0; k < VECTORS; ++k)
            if (present(i, k)) {
                // Read again: kept in registers since the sums, x and dy would crowd out dweight.
                Vector<T> out, xs = *place(stage, k), dys = place(stage, k)[ROWS * THREADS], dhs;
                if (SUM) dhs = place(stage, k)[2 * ROWS * THREADS];
                for (int p = 0; p < PAIRS; ++p) {
                    float2 x = to_float2(xs.at[p]), dy = to_float2(dys.at[p]), weight = to_float2(weights[k].at[p]);
                    float2 n = {x.x * rstd, x.y * rstd};
                    dweight[k][p].x += dy.x * n.x;
                    dweight[k][p].y += dy.y * n.y;
                    float2 sum = {dy.x * weight.x * rstd + n.x * gn_factor, dy.y * weight.y * rstd + n.y * gn_factor};
                    if (SUM) {
                        float2 dh = to_float2(dhs.at[p]);
                        sum.x += dh.x;
                        sum.y += dh.y;
                    }
                    from_float2(out.at[p], sum);
                }
                auto put = [&](T* to) {
                    to += i * N + column(k);
                    if (whole(k)) return store(to, out);
                    for (int j = 0; j < SIZE; ++j)
                        if (has(k, j)) to[j] = ((T*)&out)[j];
                };
                put(dx);
                if (SUM) put(dresidual);  // twice: an operator may not return one tensor as two outputs
            }
        fetch(i + STAGES * step, stage);  // into the place of this row
        stage = (stage + 1) % STAGES;
    }

    partial += (long long)group * N;
    if constexpr (ROWS > 1 || PEELED) {
        static_assert(CLUSTER == 1 || ROWS == 1, "rows side by side start at different places");
        // Rows side by side, and threads whose peeled rows start at different places, put their sums into the space of the queue.
        __pipeline_wait_prior(0);
        const int origin = CLUSTER > 1 ? cluster_block * VECTORS * THREADS * SIZE - before : 0;
        met_by_column<SIZE, THREADS, ROWS>(dweight, (float*)queue, partial, origin, N, column, inside, has);
    } else {
        for (int k = 0; k < VECTORS; ++k)
            for (int p = 0; p < PAIRS && inside(k); p += 2)
                *(float4*)(partial + column(k) + 2 * p) = {dweight[k][p].x, dweight[k][p].y, dweight[k][p + 1].x,
                                                           dweight[k][p + 1].y};
    }
}
