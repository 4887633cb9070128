// dweight and dbias of layer norm over few rows, a block for every 32 columns, which finds mean and rstd of all rows itself.
//
// So x is read once for each stripe, mostly from the L2 cache, and by blocks of the launch whose other blocks find dx: neither
// waits for the other, as a second kernel would.
#pragma once

#include "packs.cuh"
#include "reductions.cuh"

constexpr int STRIPE = 32, THREADS_OF_STRIPE = 1024;  // columns, and the most threads of a block

__device__ int stripes(int N)
{
    return (N + STRIPE - 1) / STRIPE;
}

// Whole warps, LANES threads to each row, PACKS packs of SIZE a thread: no more than a row asks for.
template <int SIZE, int PACKS, int LANES, typename T>
__device__ void stripe_sums(const T* dy, const T* x, T* dweight, T* dbias, long long dy_stride, long long x_stride, long long M,
                            int N, int stripe, float eps)
{
    constexpr int ROWS = 32 / LANES;  // whose values in the stripe a thread has
    __shared__ float3 rows[THREADS_OF_STRIPE / LANES];  // near + rest, the mean, and rstd
    __shared__ float2 meeting[THREADS_OF_STRIPE / 32][STRIPE];
    const int thread = threadIdx.y * blockDim.x + threadIdx.x, warp = thread / 32, warps = blockDim.x * blockDim.y / 32;
    const int row = thread / LANES, lane = thread % LANES, j = stripe * STRIPE + thread % STRIPE;
    // Of a thread's packs the last alone may be beyond a row.
    auto inside = [&](int p) { return p < PACKS - 1 || (p * LANES + lane) * SIZE < N; };

    // Nothing that the block reads has to wait for anything.
    T stripe_dys[ROWS], stripe_xs[ROWS];
    const T *dy_from = dy + warp * dy_stride + j, *x_from = x + warp * x_stride + j;
    for (int k = 0; k < ROWS; ++k) {
        const bool there = k * warps + warp < M && j < N;
        stripe_dys[k] = there ? *dy_from : (T)0.0f;
        stripe_xs[k] = there ? *x_from : (T)0.0f;
        dy_from += warps * dy_stride;
        x_from += warps * x_stride;
    }
    Pack<T, SIZE> xs[PACKS];
    const T* first = x + row * x_stride + lane * SIZE;  // the others are at constant distances
    for (int p = 0; p < PACKS; ++p)
        xs[p] = row < M && inside(p) ? load_pack<SIZE>(first + p * LANES * SIZE) : Pack<T, SIZE>{};

    const float share = __fdividef(1.0f, N);  // no division waits for a sum
    // Without a branch the compiler would ask for the stripe's values only behind the first sum, which waits for the rows.
    if (warp * ROWS < M) {
        float sum = 0.0f, rests = 0.0f, squares = 0.0f;
        for (int p = 0; p < PACKS; ++p)
            for (int v = 0; v < SIZE; ++v) sum += widened(xs[p]).at[v];
        const float near = warp_sum<LANES>(sum) * share;
        for (int p = 0; p < PACKS; ++p)
            for (int v = 0; v < SIZE; ++v) {
                const float left = inside(p) ? widened(xs[p]).at[v] - near : 0.0f;
                rests += left;
                squares += left * left;
            }
        rests = warp_sum<LANES>(rests);
        squares = warp_sum<LANES>(squares);
        const float rest = rests * share;  // what the rounded mean is off
        if (lane == 0) rows[row] = {near, rest, rstd_of((squares - rests * rest) * share, eps)};
    }
    __syncthreads();

    float2 sums = {0.0f, 0.0f};
    for (int k = 0; k < ROWS; ++k) {
        if (k * warps + warp >= M) continue;
        const float3 known = rows[k * warps + warp];
        const float gradient = (float)stripe_dys[k];
        sums.x += gradient * (((float)stripe_xs[k] - known.x - known.y) * known.z);
        sums.y += gradient;
    }
    meeting[warp][thread % STRIPE] = sums;
    __syncthreads();
    if (warp > 0) return;
    sums = {0.0f, 0.0f};
    for (int above = 0; above < THREADS_OF_STRIPE / 32; ++above)  // a constant, so that all are read at once
        if (above < warps) {
            const float2 part = meeting[above][thread];
            sums.x += part.x;
            sums.y += part.y;
        }
    if (dweight && j < N) dweight[j] = (T)sums.x;
    if (dbias && j < N) dbias[j] = (T)sums.y;
}
