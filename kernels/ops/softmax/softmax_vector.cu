// Level 5: softmax in CUDA C, forward and backward: the rungs that read a row once, by 16-byte vectors, into shared memory, as
// shared_rows.cuh does it.

#include "parts.cuh"
#include "shared_rows.cuh"

// ceil(M / ROWS) * CLUSTER blocks. A row costs one barrier: a thread adds up exponentials of how far its values are from the
// largest of its own.
template <typename T, int VECTORS, int THREADS, int ROWS>
__global__ void CLUSTER_DIMS __launch_bounds__(THREADS* ROWS)
    softmax_vector(const T* x, T* y, long long x_stride, long long M, int N)
{
    begin();
    Row<T, VECTORS, THREADS, ROWS> row(y, M, N);
    row.fetch(x, x_stride);
    row.wait(1, -1.0f / 0.0f);

    Part part;
    for (int k = 0; k < VECTORS; ++k) {
        if (!row.has(k)) continue;
        const Vector<T> xs = load(row.at(k));
        for (int p = 0; p < xs.PAIRS; ++p) {
            float2 x = to_float2(xs.at[p]);
            part.largest = fmaxf(part.largest, fmaxf(x.x, x.y));
        }
    }
    for (int k = 0; k < VECTORS; ++k) {
        if (!row.has(k)) continue;
        const Vector<T> xs = load(row.at(k));
        for (int p = 0; p < xs.PAIRS; ++p) {
            float2 x = to_float2(xs.at[p]);
            part.sum += exp_for<T>(x.x - part.largest) + exp_for<T>(x.y - part.largest);
        }
    }
    part = row_joined<THREADS>(part);

    const float scale = 1.0f / part.sum;
    for (int k = 0; k < VECTORS; ++k) {
        if (!row.has(k)) continue;
        Vector<T> xs = load(row.at(k));
        for (int p = 0; p < xs.PAIRS; ++p) {
            float2 x = to_float2(xs.at[p]);
            float2 e = {exp_for<T>(x.x - part.largest), exp_for<T>(x.y - part.largest)};
            // Rounded once in float32, whose results show it.
            from_float2(xs.at[p], sizeof(T) == 4 ? float2{e.x / part.sum, e.y / part.sum} : float2{e.x * scale, e.y * scale});
        }
        row.put(y, k, xs);
    }
}

// dx = y * (dy - sum of dy * y). The same launch.
template <typename T, int VECTORS, int THREADS, int ROWS>
__global__ void CLUSTER_DIMS __launch_bounds__(THREADS* ROWS)
    softmax_backward_vector(const T* dy, const T* y, T* dx, long long dy_stride, long long y_stride, long long M, int N)
{
    begin();
    Row<T, VECTORS, THREADS, ROWS> row(dx, M, N);
    row.fetch(dy, dy_stride, 0);
    row.fetch(y, y_stride, 1);
    row.wait(2, 0.0f);

    float2 dots = {0.0f, 0.0f};  // of even and of odd columns: two chains of additions, not one
    for (int k = 0; k < VECTORS; ++k) {
        if (!row.has(k)) continue;
        const Vector<T> dys = load(row.at(k, 0)), ys = load(row.at(k, 1));
        for (int p = 0; p < ys.PAIRS; ++p) {
            float2 dy = to_float2(dys.at[p]), y = to_float2(ys.at[p]);
            dots.x += dy.x * y.x;
            dots.y += dy.y * y.y;
        }
    }
    const float dot = row_joined<THREADS>(dots.x + dots.y);

    for (int k = 0; k < VECTORS; ++k) {
        if (!row.has(k)) continue;
        Vector<T> dys = load(row.at(k, 0)), ys = load(row.at(k, 1));
        for (int p = 0; p < ys.PAIRS; ++p) {
            float2 dy = to_float2(dys.at[p]), y = to_float2(ys.at[p]);
            from_float2(dys.at[p], {y.x * (dy.x - dot), y.y * (dy.y - dot)});
        }
        row.put(dx, k, dys);
    }
}
