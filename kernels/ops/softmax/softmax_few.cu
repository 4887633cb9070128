// Level 5: softmax in CUDA C, forward and backward: the rungs for so few rows that all are on the GPU at a time, at whatever
// places they start. Nothing then hides a wait: all of a row is asked for at once, and stays in registers.

#include "packs.cuh"
#include "parts.cuh"

// What the THREADS threads of a row know, as one, given to each of them.
template <int THREADS, typename P>
__device__ P row_joined(P part)
{
    __shared__ P warp_parts[32];
    return THREADS > 32 ? block_joined(part, warp_parts) : joined<(THREADS < 32 ? THREADS : 32)>(part);
}

// ceil(M / ROWS) blocks of (THREADS, ROWS) threads, whole warps, PACKS packs of SIZE values each; ROWS is 1 if THREADS is more
// than 32.
template <typename T, int SIZE, int PACKS, int THREADS, int ROWS>
__global__ void __launch_bounds__(THREADS* ROWS) softmax_few(const T* x, T* y, long long x_stride, long long M, int N)
{
    const long long i = (long long)blockIdx.x * ROWS + threadIdx.y;
    x += i * x_stride;
    y += i * N;
    auto column = [](int k) { return (k * THREADS + (int)threadIdx.x) * SIZE; };
    // The rows of a warp go on together, whether or not the last of them are there: sums need all of its lanes.
    auto present = [&](int k) { return (ROWS == 1 || i < M) && column(k) < N; };

    Pack<T, SIZE> row[PACKS];
    for (int k = 0; k < PACKS; ++k)
        if (present(k)) row[k] = load_pack<SIZE>(x + column(k));

    Part part;
    for (int k = 0; k < PACKS; ++k) {
        if (!present(k)) continue;
        const Floats<SIZE> xs = widened(row[k]);
        for (int i = 0; i < SIZE; ++i) part.largest = fmaxf(part.largest, xs.at[i]);
    }
    for (int k = 0; k < PACKS; ++k) {
        if (!present(k)) continue;
        const Floats<SIZE> xs = widened(row[k]);
        for (int i = 0; i < SIZE; ++i) part.sum += exp_for<T>(xs.at[i] - part.largest);
    }
    part = row_joined<THREADS>(part);

    const float scale = 1.0f / part.sum;
    for (int k = 0; k < PACKS; ++k) {
        if (!present(k)) continue;
        Floats<SIZE> xs = widened(row[k]);
        for (int i = 0; i < SIZE; ++i) {
            const float e = exp_for<T>(xs.at[i] - part.largest);
            xs.at[i] = sizeof(T) == 4 ? e / part.sum : e * scale;  // rounded once in float32, whose results show it
        }
        store_floats(y + column(k), xs);
    }
}

// dx = y * (dy - sum of dy * y). The same launch.
template <typename T, int SIZE, int PACKS, int THREADS, int ROWS>
__global__ void __launch_bounds__(THREADS* ROWS)
    softmax_backward_few(const T* dy, const T* y, T* dx, long long dy_stride, long long y_stride, long long M, int N)
{
    const long long i = (long long)blockIdx.x * ROWS + threadIdx.y;
    dy += i * dy_stride;
    y += i * y_stride;
    dx += i * N;
    auto column = [](int k) { return (k * THREADS + (int)threadIdx.x) * SIZE; };
    auto present = [&](int k) { return (ROWS == 1 || i < M) && column(k) < N; };

    Pack<T, SIZE> dy_row[PACKS], y_row[PACKS];
    for (int k = 0; k < PACKS; ++k) {
        if (!present(k)) continue;
        dy_row[k] = load_pack<SIZE>(dy + column(k));
        y_row[k] = load_pack<SIZE>(y + column(k));
    }

    float dot = 0.0f;
    for (int k = 0; k < PACKS; ++k) {
        if (!present(k)) continue;
        const Floats<SIZE> dys = widened(dy_row[k]), ys = widened(y_row[k]);
        for (int i = 0; i < SIZE; ++i) dot += dys.at[i] * ys.at[i];
    }
    dot = row_joined<THREADS>(dot);

    for (int k = 0; k < PACKS; ++k) {
        if (!present(k)) continue;
        Floats<SIZE> dys = widened(dy_row[k]);
        const Floats<SIZE> ys = widened(y_row[k]);
        for (int i = 0; i < SIZE; ++i) dys.at[i] = ys.at[i] * (dys.at[i] - dot);
        store_floats(dx + column(k), dys);
    }
}
