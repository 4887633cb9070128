// The backward of an RMS norm over so few rows that all are on the GPU at a time; rms_backward.cuh has the formulas, and says what
// a SUM is.
//
// All of dy, x and weight is asked for at once, and stays in registers. Where one block has room for all rows, its sums of
// columns are dweight, and there is no second kernel.
#pragma once

#include "few.cuh"
#include "rms_row.cuh"

// partial is G×1×N for G blocks, if there are several.
template <bool SUM, int SIZE, int PACKS, int ROWS, int LANES, typename T>
__device__ void rms_backward_few(const T* dy, const T* dh, const T* x, const T* weight, T* dx, T* dresidual, T* dweight,
                                 float* partial, long long dy_stride, long long dh_stride, long long x_stride, long long M,
                                 int N, float eps)
{
    __shared__ float2 parts[ROWS][MOST_THREADS / 32];  // of x * x and of g * x
    __shared__ Meeting<PACKS * SIZE> meeting;
    const Few<SIZE, PACKS, ROWS, LANES> mine;

    Pack<T, SIZE> weights[PACKS], dys[ROWS][PACKS], xs[ROWS][PACKS], dhs[ROWS][PACKS];
    mine.load(weights, weight, N);
    mine.load(dys, dy, dy_stride, M, N);
    mine.load(xs, x, x_stride, M, N);
    if (SUM) mine.load(dhs, dh, dh_stride, M, N);
    __syncthreads();  // compilers move no load behind a barrier: none waits for a sum
    auto g_of = [&](Floats<SIZE> dy, int p) {
        if (!weight) return dy;
        const Floats<SIZE> scale = widened(weights[p]);
        for (int v = 0; v < SIZE; ++v) dy.at[v] *= scale.at[v];
        return dy;
    };

    const float share = __fdividef(1.0f, N);  // no division waits for a sum
    float2 rows[ROWS];
    for (int k = 0; k < ROWS; ++k) {
        float2 sum = {0.0f, 0.0f};
        for (int p = 0; p < PACKS; ++p) {
            if (mine.column(p) >= N) continue;
            const Floats<SIZE> values = widened(xs[k][p]), g = g_of(widened(dys[k][p]), p);
            for (int v = 0; v < SIZE; ++v) {
                sum.x += values.at[v] * values.at[v];
                sum.y += g.at[v] * values.at[v];
            }
        }
        rows[k] = {warp_sum<LANES>(sum.x), warp_sum<LANES>(sum.y)};
        if (mine.parts > 1 && mine.lane == 0) parts[k][threadIdx.y * mine.parts + mine.part] = rows[k];
    }
    if (mine.parts > 1) {
        __syncthreads();
        for (int k = 0; k < ROWS; ++k) {
            const int lane = threadIdx.x % 32;
            const float2 part = lane < mine.parts ? parts[k][threadIdx.y * mine.parts + lane] : float2{0.0f, 0.0f};
            rows[k] = {warp_sum(part.x), warp_sum(part.y)};
        }
    }

    Floats<SIZE> dweights[PACKS] = {};
    for (int k = 0; k < ROWS; ++k) {
        const RmsRow row(rows[k].x * share, rows[k].y * share, N, eps);
        for (int p = 0; p < PACKS; ++p) {
            if (mine.column(p) >= N || mine.row(k) >= M) continue;
            const Floats<SIZE> values = widened(xs[k][p]), gradients = widened(dys[k][p]);
            Floats<SIZE> out = g_of(gradients, p), sums;
            if (SUM) sums = widened(dhs[k][p]);
            for (int v = 0; v < SIZE; ++v) {
                const float n = values.at[v] * row.rstd;
                dweights[p].at[v] += gradients.at[v] * n;
                out.at[v] = row.scale * (out.at[v] - n * row.gn);
                if (SUM) out.at[v] += sums.at[v];
            }
            const long long at = mine.row(k) * N + mine.column(p);
            store_floats(dx + at, out);
            if (SUM) store_floats(dresidual + at, out);
        }
    }
    if (dweight || gridDim.x > 1) mine.add_up(dweights, meeting, dweight, partial + (long long)blockIdx.x * N, N);
}
