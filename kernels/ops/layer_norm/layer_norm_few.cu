// Level 5: layer norm in CUDA C, forward: the rung for so few rows that all are on the GPU at a time, at whatever places they
// start, and for many narrow ones that are no whole vectors. Where rows are few nothing hides a wait, so weight and bias are
// asked for with the row: no compiler moves a load across a barrier.

#include "packs.cuh"
#include "reductions.cuh"

// Of the columns of a warp: their mean is near + rest, and the sum of squared deviations from it.
struct Part {
    float near, rest, squares;
};

// A thread has PACKS packs of SIZE values, THREADS apart. ceil(M / ROWS) blocks of (THREADS, ROWS) threads, whole warps; ROWS
// is 1 if THREADS is more than 32.
template <typename T, int SIZE, int PACKS, int THREADS, int ROWS, bool WEIGHT, bool BIAS>
__global__ void __launch_bounds__(THREADS* ROWS)
    layer_norm_few(const T* x, const T* weight, const T* bias, T* y, long long row_stride, long long M, int N, float eps)
{
    constexpr int LANES = THREADS < 32 ? THREADS : 32, WARPS = THREADS / LANES;  // of a row
    __shared__ Part parts[WARPS];
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
        if (WEIGHT) weights[k] = load_pack<SIZE>(weight + j);
        if (BIAS) biases[k] = load_pack<SIZE>(bias + j);
    }

    auto columns_of = [&](int warp) {
        constexpr int WIDTH = LANES * SIZE, BEFORE = PACKS - 1;
        return BEFORE * WIDTH + min(max(N - (BEFORE * WARPS + warp) * WIDTH, 0), WIDTH);
    };
    const int warp = threadIdx.x / 32, slot = threadIdx.x % WARPS;
    // No division waits for a sum. A warp without columns has sums of zeros.
    const float share = __fdividef(1.0f, N), warp_share = __fdividef(1.0f, max(columns_of(warp), 1));
    float sum = 0.0f, rests = 0.0f, squares = 0.0f;
    for (int k = 0; k < PACKS; ++k) {
        if (!present(k)) continue;
        const Floats<SIZE> values = widened(row[k]);
        for (int i = 0; i < SIZE; ++i) sum += values.at[i];
    }
    float near = warp_sum<LANES>(sum) * warp_share;
    // The mean, rounded: what it is off, which a mean far from 0 makes large, is the mean of what is left.
    for (int k = 0; k < PACKS; ++k) {
        if (!present(k)) continue;
        const Floats<SIZE> values = widened(row[k]);
        for (int i = 0; i < SIZE; ++i) {
            const float left = values.at[i] - near;
            rests += left;
            squares += left * left;
        }
    }
    rests = warp_sum<LANES>(rests);
    float rest = rests * warp_share;
    squares = warp_sum<LANES>(squares) - rests * rest;
    if (WARPS > 1) {  // each knows its own mean: they wait for each other once
        if (threadIdx.x % 32 == 0) parts[warp] = {near, rest, squares};
        __syncthreads();
        const Part part = parts[slot];
        near = parts[0].near;
        const float columns = columns_of(slot), apart = part.near - near + part.rest;
        rest = warp_sum<WARPS>(columns * apart) * share;
        squares = warp_sum<WARPS>(part.squares + columns * (apart - rest) * (apart - rest));
    }
    const float rstd = rstd_of(squares * share, eps);

    for (int k = 0; k < PACKS; ++k) {
        if (!present(k)) continue;
        Floats<SIZE> values = widened(row[k]), scale = widened(weights[k]), shift = widened(biases[k]);
        for (int i = 0; i < SIZE; ++i) {
            const float normalised = (values.at[i] - near - rest) * rstd;
            values.at[i] = normalised * (WEIGHT ? scale.at[i] : 1.0f) + (BIAS ? shift.at[i] : 0.0f);
        }
        store_floats(y + column(k), values);
    }
}
