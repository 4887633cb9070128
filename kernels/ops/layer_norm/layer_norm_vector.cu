// Level 5: layer norm in CUDA C, forward: the rungs with 16-byte loads.
//
//     vector    the row stays in registers.
//     reread    wide rows: the row stays in the cache instead, so that several blocks are on a multiprocessor at once.
//
// A thread has vectors threadIdx.x + k * THREADS of a row, k < VECTORS. N is a multiple of Vector::SIZE and at most VECTORS *
// THREADS of them: exactly so many if FULL. All rows start at multiples of 16 bytes.

#include "reductions.cuh"
#include "vectors.cuh"

// The first column of a thread's vector k.
template <typename T, int THREADS>
__device__ int column(int k)
{
    return (k * THREADS + threadIdx.x) * Vector<T>::SIZE;
}

// Sums of even and of odd columns: two chains of additions, not one.
template <typename T>
__device__ void add(float2& sum, Vector<T> row)
{
    for (int p = 0; p < Vector<T>::PAIRS; ++p) {
        float2 x = to_float2(row.at[p]);
        sum.x += x.x;
        sum.y += x.y;
    }
}

template <typename T>
__device__ void add_squares(float2& squares, Vector<T> row, float mean)
{
    for (int p = 0; p < Vector<T>::PAIRS; ++p) {
        float2 x = to_float2(row.at[p]);
        squares.x += (x.x - mean) * (x.x - mean);
        squares.y += (x.y - mean) * (x.y - mean);
    }
}

struct Statistics {
    float mean, rstd;  // rstd = 1 / sqrt(variance + eps)
};

template <typename T>
__device__ Vector<T> normalised(Vector<T> row, Statistics stats, Vector<T> weights, Vector<T> biases)
{
    Vector<T> y;
    for (int p = 0; p < Vector<T>::PAIRS; ++p) {
        float2 x = to_float2(row.at[p]), weight = to_float2(weights.at[p]), bias = to_float2(biases.at[p]);
        from_float2(y.at[p], {(x.x - stats.mean) * stats.rstd * weight.x + bias.x,
                              (x.y - stats.mean) * stats.rstd * weight.y + bias.y});
    }
    return y;
}

// ceil(M / ROWS) blocks of (THREADS, ROWS) threads, whole warps; ROWS is 1 if THREADS is more than 32.
template <typename T, int VECTORS, int THREADS, int ROWS, bool FULL>
__global__ void __launch_bounds__(THREADS* ROWS)
    layer_norm_vector(const T* x, const T* weight, const T* bias, T* y, long long row_stride, long long M, int N,
                      float eps)
{
    __shared__ float warp_parts[2][32];
    long long i = (long long)blockIdx.x * ROWS + threadIdx.y;
    x += i * row_stride;
    y += i * N;
    // The rows of a warp go on together, whether or not the last of them are there: sums need all of its lanes.
    auto present = [&](int k) {
        return (ROWS == 1 || i < M) && (FULL || column<T, THREADS>(k) < N);
    };

    Vector<T> row[VECTORS] = {};
    for (int k = 0; k < VECTORS; ++k)
        if (present(k)) row[k] = load(x + column<T, THREADS>(k));

    float2 sum = {0.0f, 0.0f}, squares = {0.0f, 0.0f};
    for (int k = 0; k < VECTORS; ++k) add(sum, row[k]);  // vectors beyond N are zeros
    float mean = row_sum<THREADS>(sum.x + sum.y, warp_parts[0]) / N;
    for (int k = 0; k < VECTORS; ++k)
        if (present(k)) add_squares(squares, row[k], mean);
    float variance = row_sum<THREADS>(squares.x + squares.y, warp_parts[1]) / N;
    Statistics stats = {mean, rsqrtf(variance + eps)};

    for (int k = 0; k < VECTORS; ++k) {
        int j = column<T, THREADS>(k);
        if (present(k))
            store(y + j, normalised(row[k], stats, load_columns(weight, j, 1.0f), load_columns(bias, j, 0.0f)));
    }
}

// A block a row, and BLOCKS of them on a multiprocessor: while one waits for its row or for its sums, another computes. The
// row is read from memory once; the second and the third time it comes from the cache of the multiprocessor, which has room
// for BLOCKS rows. The barriers in row_sum keep the compiler from holding it in registers.
template <typename T, int VECTORS, int THREADS, int BLOCKS, bool FULL>
__global__ void __launch_bounds__(THREADS, BLOCKS)
    layer_norm_reread(const T* x, const T* weight, const T* bias, T* y, long long row_stride, int N, float eps)
{
    __shared__ float warp_parts[2][32];
    x += blockIdx.x * row_stride;
    y += (long long)blockIdx.x * N;

    float2 sum = {0.0f, 0.0f}, squares = {0.0f, 0.0f};
    for (int k = 0; k < VECTORS; ++k) {
        int j = column<T, THREADS>(k);
        if (FULL || j < N) add(sum, load(x + j));
    }
    float mean = row_sum(sum.x + sum.y, warp_parts[0]) / N;
    for (int k = 0; k < VECTORS; ++k) {
        int j = column<T, THREADS>(k);
        if (FULL || j < N) add_squares(squares, load(x + j), mean);
    }
    Statistics stats = {mean, rsqrtf(row_sum(squares.x + squares.y, warp_parts[1]) / N + eps)};
    // Asked for: the compiler else keeps this a loop, with the loads of one vector in flight at a time.
    #pragma unroll
    for (int k = 0; k < VECTORS; ++k) {
        int j = column<T, THREADS>(k);
        if (FULL || j < N)
            store(y + j, normalised(load_last(x + j), stats, load_columns(weight, j, 1.0f), load_columns(bias, j, 0.0f)));
    }
}
