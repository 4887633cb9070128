// Level 5: layer norm in CUDA C, forward: the rung for so few rows that all are on the GPU at a time, at whatever places they
// start, and for many of float32 that are no whole vectors. Where rows are few nothing hides a wait, so weight and bias are asked
// for with the row: no compiler moves a load across a barrier.

#include "packs.cuh"
#include "reductions.cuh"

// A thread has PACKS packs of SIZE values, THREADS apart. ceil(M / ROWS) blocks of (THREADS, ROWS) threads, whole warps; ROWS
// is 1 if THREADS is more than 32.
template <typename T, int SIZE, int PACKS, int THREADS, int ROWS>
__global__ void __launch_bounds__(THREADS* ROWS)
    layer_norm_few(const T* x, const T* weight, const T* bias, T* y, long long row_stride, long long M, int N, float eps)
{
    __shared__ float warp_sums[32];
    __shared__ float2 warp_rests[32];
    const long long i = (long long)blockIdx.x * ROWS + threadIdx.y;
    x += i * row_stride;
    y += i * N;
    auto column = [](int k) { return (k * THREADS + (int)threadIdx.x) * SIZE; };
    // The rows of a warp go on together, whether or not the last of them are there: sums need all of its lanes. Of a thread's packs
    // the last alone may be beyond a row.
    auto present = [&](int k) { return (ROWS == 1 || i < M) && (k < PACKS - 1 || column(k) < N); };

    Pack<T, SIZE> row[PACKS], weights[PACKS], biases[PACKS];
    for (int k = 0; k < PACKS; ++k) {
        const int j = column(k);
        if (!present(k)) continue;
        row[k] = load_pack<SIZE>(x + j);
        if (weight) weights[k] = load_pack<SIZE>(weight + j);
        if (bias) biases[k] = load_pack<SIZE>(bias + j);
    }

    const float share = __fdividef(1.0f, N);  // no division waits for a sum
    float sum = 0.0f;
    float2 rests = {};  // and their squares
    for (int k = 0; k < PACKS; ++k) {
        if (!present(k)) continue;
        const Floats<SIZE> values = widened(row[k]);
        for (int i = 0; i < SIZE; ++i) sum += values.at[i];
    }
    const float near = row_sum<THREADS>(sum, warp_sums) * share;
    // The mean, rounded: what it is off, which a mean far from 0 makes large, is the mean of what is left.
    for (int k = 0; k < PACKS; ++k) {
        if (!present(k)) continue;
        const Floats<SIZE> values = widened(row[k]);
        for (int i = 0; i < SIZE; ++i) {
            const float left = values.at[i] - near;
            rests.x += left;
            rests.y += left * left;
        }
    }
    rests = row_sum<THREADS>(rests, warp_rests);
    const float rest = rests.x * share, rstd = rsqrtf(rests.y * share - rest * rest + eps);

    for (int k = 0; k < PACKS; ++k) {
        if (!present(k)) continue;
        Floats<SIZE> values = widened(row[k]), scale = widened(weights[k]), shift = widened(biases[k]);
        for (int i = 0; i < SIZE; ++i) {
            const float normalised = (values.at[i] - near - rest) * rstd;
            values.at[i] = normalised * (weight ? scale.at[i] : 1.0f) + (bias ? shift.at[i] : 0.0f);
        }
        store_floats(y + column(k), values);
    }
}
