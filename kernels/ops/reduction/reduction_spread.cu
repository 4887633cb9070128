// Level 5: the backward by 16-byte stores: dx is dy times scale, along the rows of an M×N matrix or down its columns; of a
// largest value, at its place alone, and 0 elsewhere. T is float, __half or __nv_bfloat16.

#include "cut.cuh"
#include "packs.cuh"

// ceil(M / rows) × parts blocks of (threads of a row, rows) threads: each thread has one value to write, all along.
template <typename T, bool MAX>
__global__ void reduction_spread_rows(const T* dy, const long long* index, T* dx, long long M, int N, float scale)
{
    constexpr int SIZE = Vector<T>::SIZE;
    const long long row = (long long)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= M) return;
    const float value = (float)dy[row] * scale;
    const int place = MAX ? (int)index[row] : 0;
    auto at = [&](int k) { return MAX && k != place ? 0.0f : value; };
    dx += row * N;
    const Cut<T> cut(dx, N);
    if (blockIdx.y == 0) {
        for (int k = threadIdx.x; k < cut.lead; k += blockDim.x) dx[k] = (T)at(k);
        for (int k = cut.rest + threadIdx.x; k < N; k += blockDim.x) dx[k] = (T)at(k);
    }
    for (int v = blockIdx.y * blockDim.x + threadIdx.x; v < cut.vectors; v += gridDim.y * blockDim.x) {
        const int k = cut.lead + v * SIZE;
        Vector<T> values;
        for (int p = 0; p < SIZE / 2; ++p) from_float2(values.at[p], {at(k + 2 * p), at(k + 2 * p + 1)});
        store(dx + k, values);
    }
}

// Blocks of (threads across, threads down): each thread has what it writes in SIZE columns, and walks down rows.
template <typename T, bool MAX, int SIZE>
__global__ void reduction_spread_columns(const T* dy, const long long* index, T* dx, int M, int N, float scale)
{
    const int column = (blockIdx.x * blockDim.x + threadIdx.x) * SIZE;
    if (column >= N) return;
    Floats<SIZE> values = load_floats<SIZE>(dy + column);
    int places[SIZE];
    for (int i = 0; i < SIZE; ++i) {
        values.at[i] *= scale;
        places[i] = MAX ? (int)index[column + i] : 0;
    }
    for (int k = blockIdx.y * blockDim.y + threadIdx.y; k < M; k += gridDim.y * blockDim.y) {
        Floats<SIZE> spread;
        for (int i = 0; i < SIZE; ++i) spread.at[i] = MAX && places[i] != k ? 0.0f : values.at[i];
        store_floats(dx + (long long)k * N + column, spread);
    }
}
