// Level 5: layer norm in CUDA C, forward, for few long rows, each divided among several blocks.
//
//     parts    of a part of a row: its mean, and its sum of squared deviations from that.
//     split    every warp joins the parts of its row; the block normalises its own part of it.
//
// The row is read twice, the second time from the cache. Rows are whole packs of SIZE values. The grid: rows, parts of
// a row.

#include "row_parts.cuh"

struct alignas(8) Part {
    float mean, squares;
};

template <typename T, int SIZE>
__global__ void layer_norm_parts(const T* x, Part* parts, long long x_stride, int N)
{
    __shared__ float warp_parts[2][32];
    const Columns columns(blockIdx.y, N);
    x += blockIdx.x * x_stride;
    Pack<T, SIZE> row[VALUES / SIZE];
    columns.load(row, x);
    __syncthreads();  // compilers move no load behind a barrier: none waits for a sum

    float sum = 0.0f, squares = 0.0f;
    for (int k = 0; k < VALUES / SIZE; ++k)
        if (columns.pack_start<SIZE>(k) < columns.end)
            for (float value : widened(row[k]).at) sum += value;
    const float mean = row_sum(sum, warp_parts[0]) / (columns.end - columns.first);
    for (int k = 0; k < VALUES / SIZE; ++k)
        if (columns.pack_start<SIZE>(k) < columns.end)
            for (float value : widened(row[k]).at) squares += (value - mean) * (value - mean);
    squares = row_sum(squares, warp_parts[1]);
    if (threadIdx.x == 0) parts[(long long)blockIdx.x * gridDim.y + blockIdx.y] = {mean, squares};
}

template <typename T, int SIZE>
__global__ void layer_norm_split(const T* x, const T* weight, const T* bias, T* y, const Part* parts, long long x_stride,
                                 int N, float eps)
{
    const Columns columns(blockIdx.y, N);
    x += blockIdx.x * x_stride;
    y += (long long)blockIdx.x * N;
    parts += (long long)blockIdx.x * gridDim.y;
    Pack<T, SIZE> row[VALUES / SIZE], weights[VALUES / SIZE], biases[VALUES / SIZE];
    columns.load(row, x);
    // With the row: where a pack is one value, the loop at the end would wait for each weight before it asks for the next.
    if (weight) columns.load(weights, weight);
    if (bias) columns.load(biases, bias);
    __syncthreads();  // behind which no load may move, nor wait for the parts

    const float mean = joined_mean(parts, gridDim.y, columns.part_columns, N);
    float squares = 0.0f;
    for (int p = threadIdx.x % 32; p < gridDim.y; p += 32) {
        const Part part = parts[p];
        squares += part.squares + columns_of(p, columns.part_columns, N) * (part.mean - mean) * (part.mean - mean);
    }
    const float rstd = rsqrtf(warp_sum(squares) / N + eps);

    for (int k = 0; k < VALUES / SIZE; ++k) {
        const int j = columns.pack_start<SIZE>(k);
        if (j >= columns.end) continue;
        Floats<SIZE> values = widened(row[k]), scale = widened(weights[k]), shift = widened(biases[k]);
        for (int v = 0; v < SIZE; ++v) {
            const float normalised = (values.at[v] - mean) * rstd;
            values.at[v] = (weight ? normalised * scale.at[v] : normalised) + (bias ? shift.at[v] : 0.0f);
        }
        store_floats(y + j, values);
    }
}
