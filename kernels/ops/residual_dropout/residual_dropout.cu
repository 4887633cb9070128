// Level 5: dropout and a residual in CUDA C. Each thread makes the random words of its elements: four by each counter where a
// thread has packs of four or eight, and one where rows are not made of such packs. Elements that packs leave over have a
// thread each, so that none waits for another.
//
//     y = residual + (u >= p ? x * scale : 0),    u: number i of the seed for element i of all
//
// T is float, __half or __nv_bfloat16; the arithmetic is float. Without RESIDUAL there is none to add. Index counts elements:
// where it is an int, half of a counter is known to be 0, and what follows from that is computed when this is compiled. All
// indices are signed: of unsigned ones NVRTC does not see that the parts of a pack are neighbours, and stores each by itself.

#include "packs.cuh"
#include "philox.cuh"

// Whether u >= p, asked of the word that u is made of, folded as uniform_of folds it: the greatest word of a number below p is
// `most`, and -1 where there is none.
__device__ bool is_kept(unsigned word, int most) { return (int)word > most || (int)word < ~most; }

// The counter of the element at a place, which is not negative: that of an int has no upper half.
template <typename Index>
__device__ unsigned long long counter_of(Index at)
{
    return sizeof(Index) == 4 ? (unsigned)at / 4 : (unsigned long long)at / 4;
}

// M * across blocks, `across` of them for a row, in which a thread has PACKS packs, or elements left over. A row has `packs` of
// them, none where SIZE is 1. Rows start at multiples of SIZE values; only one alone may end elsewhere.
template <typename T, typename Index, int SIZE, int PACKS, bool RESIDUAL>
__global__ void residual_dropout(const T* x, const T* residual, T* y, Index x_stride, Index residual_stride, Index N,
                                 Index packs, int across, float scale, unsigned long long seed, int most)
{
    // A row alone needs no division.
    const int row = (int)gridDim.x == across ? 0 : (int)blockIdx.x / across, block = blockIdx.x - row * across;
    const Index first = (Index)block * (PACKS * (int)blockDim.x) + (int)threadIdx.x;
    const Index x_at = row * x_stride, residual_at = RESIDUAL ? row * residual_stride : 0, y_at = row * N;

    Pack<T, SIZE> from[PACKS], others[PACKS];
    if constexpr (SIZE >= 4) {
#pragma unroll  // all of them on their way, before the first random number
        for (int p = 0; p < PACKS; ++p) {
            const Index pack = first + p * (int)blockDim.x;
            if (pack < packs) {
                from[p] = load_pack<SIZE>(x + (x_at + pack * SIZE));
                if (RESIDUAL) others[p] = load_pack<SIZE>(residual + (residual_at + pack * SIZE));
            }
        }
    }
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
        const Index pack = first + p * (int)blockDim.x;
        if (SIZE < 4 || pack >= packs) break;
        const Floats<SIZE> values = widened(from[p]);
        Floats<SIZE> sums = RESIDUAL ? widened(others[p]) : Floats<SIZE>{};
#pragma unroll
        for (int i = 0; i + 4 <= SIZE; i += 4) {
            const uint4 four = words4(seed, counter_of(y_at + pack * SIZE + i));
            const unsigned words[4] = {four.x, four.y, four.z, four.w};
            for (int j = 0; j < 4; ++j) {
                const float value = is_kept(words[j], most) ? values.at[i + j] * scale : 0.0f;
                sums.at[i + j] = RESIDUAL ? sums.at[i + j] + value : value;
            }
        }
        store_floats(y + (y_at + pack * SIZE), sums);
    }

    if (SIZE >= 4 && first + (PACKS - 1) * (int)blockDim.x < packs) return;
#pragma unroll 1
    for (Index left = first - packs; left < first - packs + PACKS * (int)blockDim.x; left += blockDim.x) {
        if (left < 0 || left >= N - packs * SIZE) continue;
        const Index j = packs * SIZE + left;
        const uint4 four = words4(seed, counter_of(y_at + j));
        const unsigned words[4] = {four.x, four.y, four.z, four.w};
        const float value = (float)x[x_at + j], other = RESIDUAL ? (float)residual[residual_at + j] : 0.0f;
        y[y_at + j] = (T)(other + (is_kept(words[(y_at + j) % 4], most) ? value * scale : 0.0f));
    }
}
