// The last kernel of a backward whose blocks each add up some rows: the sums over the blocks.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "reductions.cuh"

// first and second, T[N] or null, as the sums of a G×SUMS×N partial over G, always in the same order; SUMS is 1, then second
// is null, or 2. (32, 32) threads for every 32 of the SUMS * N columns.
template <typename T, int SUMS>
__global__ void column_sums(const float* partial, T* first, T* second, int G, int N)
{
    __shared__ float lane_sums[32][33];  // 33: a column of 32 lies in 32 banks
    int j = blockIdx.x * 32 + threadIdx.x;
    float sum = 0.0f;
    if (j < SUMS * N)
#pragma unroll 8  // loads on their way at once
        for (int g = threadIdx.y; g < G; g += 32) sum += partial[(long long)g * SUMS * N + j];
    lane_sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    sum = warp_sum(lane_sums[threadIdx.x][threadIdx.y]);
    j = blockIdx.x * 32 + threadIdx.y;
    T* to = j < N ? first : second;
    if (threadIdx.x == 0 && j < SUMS * N && to) to[j < N ? j : j - N] = (T)sum;
}
