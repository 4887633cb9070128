// Level 5: dropout and a residual in CUDA C. Each thread makes the random numbers of its elements: four by each counter where a
// thread has a pack of four or eight, and one where rows are not made of such packs. Elements that packs leave over have a
// thread each, so that none waits for another.
//
//     y = residual + (u >= p ? x * scale : 0),    u: number i of the seed for element i of all
//
// T is float, __half or __nv_bfloat16; the arithmetic is float. residual may be null.

#include "packs.cuh"
#include "philox.cuh"

// Number `element` of a seed.
__device__ float uniform1(unsigned long long seed, long long element)
{
    const float4 u = uniform4(seed, element / 4);
    const float numbers[4] = {u.x, u.y, u.z, u.w};
    return numbers[element % 4];
}

// M * across blocks, `across` of them for a row. In 64 bits their division would cost more than the random numbers. Rows start
// at multiples of SIZE values; only one alone may end elsewhere.
template <typename T, int SIZE>
__global__ void residual_dropout(const T* x, const T* residual, T* y, long long x_stride, long long residual_stride,
                                 long long N, unsigned across, float p, float scale, unsigned long long seed)
{
    const unsigned block = blockIdx.x % across;
    const long long row = blockIdx.x / across, thread = (long long)block * blockDim.x + threadIdx.x, packs = N / SIZE;
    x += row * x_stride;
    y += row * N;
    if (residual) residual += row * residual_stride;

    if (SIZE < 4 || thread >= packs) {
        const long long j = thread + packs * (SIZE - 1);
        if (j >= N) return;
        const float value = (float)x[j], other = residual ? (float)residual[j] : 0.0f;
        y[j] = (T)(other + (uniform1(seed, row * N + j) >= p ? value * scale : 0.0f));
        return;
    }
    const long long column = thread * SIZE;
    const Pack<T, SIZE> pack = load_pack<SIZE>(x + column);
    Pack<T, SIZE> other_pack = {};
    if (residual) other_pack = load_pack<SIZE>(residual + column);
    float4 numbers[(SIZE + 3) / 4];  // made while the packs are on their way
#pragma unroll
    for (int q = 0; q < SIZE / 4; ++q) numbers[q] = uniform4(seed, (row * N + column) / 4 + q);
    const Floats<SIZE> values = widened(pack);
    Floats<SIZE> sums = widened(other_pack);
#pragma unroll
    for (int i = 0; i + 4 <= SIZE; i += 4) {
        const float4 u = numbers[i / 4];
        sums.at[i] += u.x >= p ? values.at[i] * scale : 0.0f;
        sums.at[i + 1] += u.y >= p ? values.at[i + 1] * scale : 0.0f;
        sums.at[i + 2] += u.z >= p ? values.at[i + 2] * scale : 0.0f;
        sums.at[i + 3] += u.w >= p ? values.at[i + 3] * scale : 0.0f;
    }
    store_floats(y + column, sums);
}
