// What the kernels of attention share: where a tile is, who sees whom, and tiles of rows as floats in shared memory.
//
// H query heads, GROUP of them to a head of keys; Q queries and KV keys of D features. Query i is at place i + KV - Q and sees key j
// where -left <= j - place <= right.
#pragma once

#include "parts.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int LANES = 8;  // neighbouring threads that share a row: each has every eighth of its scores, and of its features

struct Sizes {
    int H, GROUP, Q, KV, left, right, D;

    __device__ bool visible(int i, int j) const
    {
        const int apart = j - (i + KV - Q);
        return i < Q && j < KV && -left <= apart && apart <= right;
    }
    // The keys that queries first to last see lie from `begin` to `end`, and so do the queries that see keys first to last.
    __device__ int begin_of_keys(int first) const { return max(first + KV - Q - left, 0); }
    __device__ int end_of_keys(int last) const { return min(last + KV - Q + right + 1, KV); }
    __device__ int begin_of_queries(int first) const { return max(first - (KV - Q) - right, 0); }
    __device__ int end_of_queries(int last) const { return min(last - (KV - Q) + left + 1, Q); }
};

// The tile of a block of TILE × LANES threads among the tiles of n rows of every head, and the row of a thread.
template <int TILE>
struct Place {
    long long b;
    int h, first, row, lane;

    __device__ Place(int heads, int n)
    {
        const int tiles = (n + TILE - 1) / TILE;
        const long long head = blockIdx.x / tiles;
        b = head / heads;
        h = head % heads;
        first = blockIdx.x % tiles * TILE;
        row = threadIdx.x / LANES;
        lane = threadIdx.x % LANES;
    }
};

// TILE rows from `first` on of n rows of D features, as floats, with zeros beyond both.
template <int TILE, int WIDTH, typename T>
__device__ void fill(float (&tile)[TILE][WIDTH + 1], const T* from, long long stride, int first, int n, int D)
{
    for (int at = threadIdx.x; at < TILE * WIDTH; at += TILE * LANES) {
        const int row = at / WIDTH, d = at % WIDTH;
        tile[row][d] = first + row < n && d < D ? (float)from[(first + row) * stride + d] : 0.0f;
    }
}

template <int WIDTH>
__device__ float dot(const float (&a)[WIDTH + 1], const float (&b)[WIDTH + 1])
{
    float sums[4] = {};  // which wait for each other less than one does, and round less
    for (int d = 0; d < WIDTH; d += 4)
        for (int k = 0; k < 4; ++k) sums[k] += a[d + k] * b[d + k];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// sums[c] += sum over the rows of a tile of weights[row] · tile[row][d], for the features d = lane + 8c of a thread.
template <int TILE, int WIDTH>
__device__ void add_weighted(float (&sums)[WIDTH / LANES], const float (&weights)[TILE + 1],
                             const float (&tile)[TILE][WIDTH + 1], int lane)
{
    for (int row = 0; row < TILE; ++row) {
        const float weight = weights[row];
        for (int c = 0; c < WIDTH / LANES; ++c) sums[c] += weight * tile[row][lane + LANES * c];
    }
}

// Of a query: what its weights follow from.
struct alignas(8) Softmax {
    float largest, log_sum;

    template <typename T>
    __device__ float weight(float product, float scale) const
    {
        return exp_for<T>(scale * (product - largest) - log_sum);
    }
};

// What is known of a query at the end: its LSE, and for a backward both terms of it. `part` is of q · k.
__device__ void finish(Part part, float scale, float* lse, Softmax* state, long long at)
{
    const bool alone = part.sum == 0.0f;
    lse[at] = alone ? __int_as_float(0xff800000) : part.largest * scale + logf(part.sum);
    state[at] = {part.largest, alone ? 0.0f : logf(part.sum)};
}
