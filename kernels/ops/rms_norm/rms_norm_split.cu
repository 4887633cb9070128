// Level 5: RMS norm in CUDA C, forward, for few long rows, each divided among several blocks.
//
//     parts    of a part of a row: its sum of squares.
//     split    every warp joins the parts of its row; the block normalises its own part of it.
//
// The row is read twice, the second time from the cache. Rows are whole packs of SIZE values. The grid: rows, parts of
// a row.

#include "row_parts.cuh"

template <typename T, int SIZE>
__global__ void rms_norm_parts(const T* x, float* parts, long long x_stride, int N)
{
    __shared__ float warp_parts[32];
    const Columns columns(blockIdx.y, N);
    x += blockIdx.x * x_stride;
    float squares = 0.0f;
    for (int k = 0; k < VALUES / SIZE; ++k) {
        const int j = columns.pack_start<SIZE>(k);
        if (j >= columns.end) continue;
        for (float value : load_floats<SIZE>(x + j).at) squares += value * value;
    }
    squares = row_sum(squares, warp_parts);
    if (threadIdx.x == 0) parts[(long long)blockIdx.x * gridDim.y + blockIdx.y] = squares;
}

template <typename T, int SIZE>
__global__ void rms_norm_split(const T* x, const T* weight, T* y, const float* parts, long long x_stride, int N, float eps)
{
    const Columns columns(blockIdx.y, N);
    x += blockIdx.x * x_stride;
    y += (long long)blockIdx.x * N;
    parts += (long long)blockIdx.x * gridDim.y;
    Pack<T, SIZE> row[VALUES / SIZE], weights[VALUES / SIZE];  // on their way while the parts are
    columns.load(row, x);
    if (weight) columns.load(weights, weight);

    float squares = 0.0f;
    for (int p = threadIdx.x % 32; p < gridDim.y; p += 32) squares += parts[p];
    const float rstd = rsqrtf(warp_sum(squares) / N + eps);

    for (int k = 0; k < VALUES / SIZE; ++k) {
        const int j = columns.pack_start<SIZE>(k);
        if (j >= columns.end) continue;
        Floats<SIZE> values = widened(row[k]), scale = widened(weights[k]);
        for (int v = 0; v < SIZE; ++v) values.at[v] *= weight ? rstd * scale.at[v] : rstd;
        store_floats(y + j, values);
    }
}
