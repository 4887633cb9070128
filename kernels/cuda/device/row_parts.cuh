// Rows divided among blocks, VALUES columns for each of a block's threads, and what describes a row from what describes its parts
// (Chan, Golub and LeVeque 1983, "Algorithms for computing the sample variance").
#pragma once

#include "packs.cuh"
#include "reductions.cuh"

constexpr int VALUES = 16;  // of a part that a thread holds: loads on their way at once, even where each is of one value

// Part `part` of a row of N columns: how many columns a part has but for the last, and where this one starts and ends.
struct Columns {
    int part_columns, first, end;

    __device__ Columns(int part, int N) : part_columns(VALUES * blockDim.x)
    {
        first = part * part_columns;
        end = min(first + part_columns, N);
    }

    // The first column of this thread's pack k.
    template <int SIZE>
    __device__ int pack_start(int k) const
    {
        return first + (k * (int)blockDim.x + (int)threadIdx.x) * SIZE;
    }

    // This thread's packs of a row, or of the weight, all asked for at once: in place of one beyond the end the last, since under
    // conditions the compiler would ask for a few at a time.
    template <typename T, int SIZE>
    __device__ void load(Pack<T, SIZE> (&packs)[VALUES / SIZE], const T* from) const
    {
        for (int k = 0; k < VALUES / SIZE; ++k) packs[k] = load_pack<SIZE>(from + min(pack_start<SIZE>(k), end - SIZE));
    }
};

// The columns of part p, out of `part_columns` each.
__device__ float columns_of(int p, int part_columns, int N)
{
    return min(N - p * part_columns, part_columns);
}

// The mean of a row from P parts that begin with their mean, given to each lane of a warp; exactly that of the parts where all
// have the same.
template <typename P>
__device__ float joined_mean(const P* parts, int count, int part_columns, int N)
{
    const float first = parts[0].mean;
    float sum = 0.0f;
    for (int p = threadIdx.x % 32; p < count; p += 32) sum += columns_of(p, part_columns, N) * (parts[p].mean - first);
    return first + warp_sum(sum) / N;
}
