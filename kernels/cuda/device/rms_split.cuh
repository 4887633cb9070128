// An RMS norm over long rows, each divided among several blocks; where there is a SUM, of x + residual, which is an output, h.
//
//     parts    of a part of a row: its sum of squares, and its h.
//     split    every warp joins the parts of its row; the block normalises its own part of it.
//
// The row is read twice, the second time from the cache where there are few. Rows are whole packs of SIZE values. The grid: the
// parts of the first row, then those of the next.
#pragma once

#include "row_parts.cuh"

// Where a block's part lies: in which row, and which of how many it is.
struct Place {
    int count, row, part;

    __device__ explicit Place(int N)
    {
        const int part_columns = VALUES * blockDim.x;
        count = (N - 1) / part_columns + 1;
        row = blockIdx.x / count;
        part = blockIdx.x % count;
    }
};

// This thread's packs of a row of x, or of x + residual, all asked for at once, and their values.
template <bool SUM, int SIZE, typename T>
struct Row {
    Pack<T, SIZE> of_x[VALUES / SIZE], of_residual[VALUES / SIZE];

    __device__ Row(const Columns& columns, const T* x, const T* residual)
    {
        columns.load(of_x, x);
        if (SUM) columns.load(of_residual, residual);
        __syncthreads();  // compilers move no load behind a barrier: none waits for a sum
    }

    __device__ Floats<SIZE> operator[](int k) const
    {
        Floats<SIZE> values = widened(of_x[k]);
        if (!SUM) return values;
        const Floats<SIZE> more = widened(of_residual[k]);
        for (int v = 0; v < SIZE; ++v) values.at[v] += more.at[v];
        return values;
    }
};

template <bool SUM, int SIZE, typename T>
__device__ void rms_parts(const T* x, const T* residual, T* h, float* parts, long long x_stride, long long residual_stride,
                          int N)
{
    __shared__ float warp_parts[32];
    const Place place(N);
    const Columns columns(place.part, N);
    const Row<SUM, SIZE, T> row(columns, x + place.row * x_stride, residual + place.row * residual_stride);
    h += (long long)place.row * N;

    float squares = 0.0f;
    for (int k = 0; k < VALUES / SIZE; ++k) {
        const int j = columns.pack_start<SIZE>(k);
        if (j >= columns.end) continue;
        const Floats<SIZE> values = row[k];
        for (float value : values.at) squares += value * value;
        if (SUM) store_floats(h + j, values);
    }
    squares = row_sum(squares, warp_parts);
    if (threadIdx.x == 0) parts[blockIdx.x] = squares;
}

template <bool SUM, int SIZE, typename T>
__device__ void rms_split(const T* x, const T* residual, const T* weight, T* y, const float* parts, long long x_stride,
                          long long residual_stride, int N, float eps)
{
    const Place place(N);
    const Columns columns(place.part, N);
    const Row<SUM, SIZE, T> row(columns, x + place.row * x_stride, residual + place.row * residual_stride);
    Pack<T, SIZE> weights[VALUES / SIZE];  // on their way while the parts are
    if (weight) columns.load(weights, weight);
    __syncthreads();  // behind which no load may move, nor wait for the parts
    y += (long long)place.row * N;
    parts += (long long)place.row * place.count;

    float squares = 0.0f;
    for (int p = threadIdx.x % 32; p < place.count; p += 32) squares += parts[p];
    const float rstd = rsqrtf(warp_sum(squares) / N + eps);

    for (int k = 0; k < VALUES / SIZE; ++k) {
        const int j = columns.pack_start<SIZE>(k);
        if (j >= columns.end) continue;
        Floats<SIZE> values = row[k], scale = widened(weights[k]);
        for (int v = 0; v < SIZE; ++v) values.at[v] *= weight ? rstd * scale.at[v] : rstd;
        store_floats(y + j, values);
    }
}
