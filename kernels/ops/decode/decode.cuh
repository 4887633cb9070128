// What the kernels of decoding share: where keys are, into how many parts they are divided, and what is made of a query's.
#pragma once

#include "packs.cuh"
#include "parts.cuh"

#include <assert.h>

constexpr int KEYS = 32;  // a part has a multiple of them

// Where the keys of a sequence are: key j is row j % size of page table[j / size]. Without a table there is one page.
struct Pages {
    const int* table;
    int only, many, size;

    __device__ Pages(const int* tables, int b, int columns, int many, int size)
        : table(tables ? tables + (long long)b * columns : nullptr), only(b), many(many), size(size)
    {
    }
    __device__ bool has(int page) const { return 0 <= page && page < many; }
    __device__ int2 place(int j) const  // the page, and the row in it
    {
        if (!table) return {only, j};
        const int page = table[j / size];
        assert(0 <= page && page < many && "table");
        return {page, j % size};
    }
    __device__ long long row(int j, long long page_stride, long long key_stride) const
    {
        const int2 at = place(j);
        return at.x * page_stride + at.y * key_stride;
    }
};

__device__ int length_of(const int* lengths, int b, int capacity)
{
    const int length = lengths[b];
    assert(0 <= length && length <= capacity && "lengths");
    return length;
}

// The mean of a query's values from their weighted sum, and its LSE; without keys 0 and -inf.
template <typename T, int EACH>
__device__ void store_query(T* y, float* lse, const float (&sums)[EACH], Part part, int D)
{
    const int lane = threadIdx.x % 32;
    const bool none = part.sum == 0.0f;
    for (int c = 0; c < EACH; ++c)
        if (lane + 32 * c < D) y[lane + 32 * c] = (T)(none ? 0.0f : sums[c] / part.sum);
    if (lane == 0) *lse = none ? __int_as_float(0xff800000) : part.largest + logf(part.sum);
}

// Keys of each of so many parts: whole tiles, as evenly as they go. The last parts may have none.
__device__ int keys_of_part(int length, int parts)
{
    const int together = KEYS * parts;
    return max((length + together - 1) / together, 1) * KEYS;
}

// Of a block's queries, from `query` on: what its warps have of them, joined, is the part that it leaves.
template <int WIDTH, int WARPS, int HEADS, int ROW>
__device__ void leave_part(float* values, float* parts, const float (&sums_of)[WARPS][HEADS][ROW],
                           const Part (&parts_of)[WARPS][HEADS], long long query, int heads, int D)
{
    __syncthreads();
    for (int i = threadIdx.x; i < heads * WIDTH; i += blockDim.x) {
        const int h = i / WIDTH, d = i % WIDTH;
        const long long at = (query + h) * gridDim.x + blockIdx.x;
        Part whole;
        for (int w = 0; w < WARPS; ++w) whole.largest = fmaxf(whole.largest, parts_of[w][h].largest);
        float sum = 0.0f;
        for (int w = 0; w < WARPS; ++w) {
            const float fade = expf(parts_of[w][h].largest - whole.largest);
            whole.sum += fade * parts_of[w][h].sum;
            sum += fade * sums_of[w][h][d];
        }
        if (d < D) values[at * D + d] = sum;
        if (d == 0) parts[2 * at] = whole.largest;
        if (d == 0) parts[2 * at + 1] = whole.sum;
    }
}
