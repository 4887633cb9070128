// Level 5: layer norm in CUDA C, forward: the rung for so few rows that all are on the GPU at a time, at whatever places they
// start. Nothing then hides a wait, so weight and bias are asked for with the row: no compiler moves a load across a barrier.

#include "packs.cuh"
#include "reductions.cuh"

// M blocks of THREADS threads, PACKS packs of SIZE values each.
template <typename T, int SIZE, int PACKS, int THREADS>
__global__ void __launch_bounds__(THREADS)
    layer_norm_few(const T* x, const T* weight, const T* bias, T* y, long long row_stride, int N, float eps)
{
    __shared__ float of_warp[2][32];
    x += blockIdx.x * row_stride;
    y += (long long)blockIdx.x * N;

    const float first = (float)x[0];
    Pack<T, SIZE> row[PACKS], weights[PACKS], biases[PACKS];
    for (int k = 0; k < PACKS; ++k) {
        const int j = (k * THREADS + (int)threadIdx.x) * SIZE;
        if (j >= N) continue;
        row[k] = load_pack<SIZE>(x + j);
        if (weight) weights[k] = load_pack<SIZE>(weight + j);
        if (bias) biases[k] = load_pack<SIZE>(bias + j);
    }

    // All is counted from the first value: a mean far from 0 would cost float32's last bits.
    float sum = 0.0f, squares = 0.0f;
    for (int k = 0; k < PACKS; ++k) {
        if ((k * THREADS + (int)threadIdx.x) * SIZE >= N) continue;
        const Floats<SIZE> values = widened(row[k]);
        for (int i = 0; i < SIZE; ++i) sum += values.at[i] - first;
    }
    const float mean = row_sum(sum, of_warp[0]) / N;
    for (int k = 0; k < PACKS; ++k) {
        if ((k * THREADS + (int)threadIdx.x) * SIZE >= N) continue;
        const Floats<SIZE> values = widened(row[k]);
        for (int i = 0; i < SIZE; ++i) {
            const float centred = values.at[i] - first - mean;
            squares += centred * centred;
        }
    }
    const float rstd = rsqrtf(row_sum(squares, of_warp[1]) / N + eps);

    for (int k = 0; k < PACKS; ++k) {
        const int j = (k * THREADS + (int)threadIdx.x) * SIZE;
        if (j >= N) continue;
        Floats<SIZE> values = widened(row[k]), scale = widened(weights[k]), shift = widened(biases[k]);
        for (int i = 0; i < SIZE; ++i) {
            const float normalised = (values.at[i] - first - mean) * rstd;
            values.at[i] = normalised * (weight ? scale.at[i] : 1.0f) + (bias ? shift.at[i] : 0.0f);
        }
        store_floats(y + j, values);
    }
}
