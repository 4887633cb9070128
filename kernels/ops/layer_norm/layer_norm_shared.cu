// Level 5: layer norm in CUDA C, forward: the rung for rows that start anywhere, and for few wide rows. A row is read once, by
// 16-byte vectors, into shared memory, as shared_rows.cuh does it.

#include "shared_rows.cuh"

// ceil(M / ROWS) * CLUSTER blocks of (THREADS, ROWS) threads.
template <typename T, int VECTORS, int THREADS, int ROWS>
__global__ void CLUSTER_DIMS __launch_bounds__(THREADS* ROWS)
    layer_norm_shared(const T* x, T* y, long long x_stride, long long M, int N, const T* weight, const T* bias, float eps)
{
    begin();
    Row<T, VECTORS, THREADS, ROWS> row(y, M, N);
    row.fetch(x, x_stride);
    row.wait(1, 0.0f);

    float2 sum = {0.0f, 0.0f};  // of even and of odd columns: two chains of additions, not one
    for (int k = 0; k < VECTORS; ++k) {
        if (!row.has(k)) continue;
        const Vector<T> xs = load(row.at(k));
        for (int p = 0; p < xs.PAIRS; ++p) {
            float2 x = to_float2(xs.at[p]);
            sum.x += x.x;
            sum.y += x.y;
        }
    }
    const float mean = row_joined<THREADS>(sum.x + sum.y) / N;

    float2 squares = {0.0f, 0.0f};
    for (int k = 0; k < VECTORS; ++k) {
        if (!row.has(k)) continue;
        const Vector<T> xs = load(row.at(k));
        const bool whole = row.whole(k);
        for (int p = 0; p < xs.PAIRS; ++p) {
            float2 x = to_float2(xs.at[p]);
            if (whole || row.has(k, 2 * p)) squares.x += (x.x - mean) * (x.x - mean);
            if (whole || row.has(k, 2 * p + 1)) squares.y += (x.y - mean) * (x.y - mean);
        }
    }
    const float rstd = rsqrtf(row_joined<THREADS, 1>(squares.x + squares.y) / N + eps);

    for (int k = 0; k < VECTORS; ++k) {
        if (!row.has(k)) continue;
        Vector<T> xs = load(row.at(k));
        const Vector<T> weights = load_columns_at(weight, row.column(k), N, 1.0f);
        const Vector<T> biases = load_columns_at(bias, row.column(k), N, 0.0f);
        for (int p = 0; p < xs.PAIRS; ++p) {
            float2 x = to_float2(xs.at[p]), weight = to_float2(weights.at[p]), bias = to_float2(biases.at[p]);
            from_float2(xs.at[p], {(x.x - mean) * rstd * weight.x + bias.x, (x.y - mean) * rstd * weight.y + bias.y});
        }
        row.put(y, k, xs);
    }
}
