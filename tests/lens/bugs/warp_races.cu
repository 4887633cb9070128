// Lanes of a warp that do not wait for each other.
#include <cooperative_groups.h>

// launch: (1,), (32,), (floats(32), zeros(1))
extern "C" __global__ void warp_sum(const float* x, float* y) {
    volatile __shared__ float s[32];
    s[threadIdx.x] = x[threadIdx.x];
    for (int half = 16; half > 0; half /= 2)
        if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];  // bug: race
    if (threadIdx.x == 0) y[0] = s[0];
}

// launch: (1,), (64,), (floats(64), zeros(64))
extern "C" __global__ void rotated(const float* x, float* y) {
    __shared__ float s[2][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    s[warp][lane] = x[threadIdx.x];
    y[threadIdx.x] = s[warp][(lane + 1) % 32];  // bug: race
}

// launch: (1,), (64,), (floats(64), zeros(64))
extern "C" __global__ void other_warp(const float* x, float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    y[threadIdx.x] = s[63 - threadIdx.x];  // bug: race
}

// launch: (1,), (32,), (floats(32), zeros(32))
extern "C" __global__ void half_of_the_mask(const float* x, float* y) {
    __shared__ float s[32];
    s[threadIdx.x] = x[threadIdx.x];
    __syncwarp(threadIdx.x < 16 ? 0x0000ffffu : 0xffff0000u);
    y[threadIdx.x] = s[31 - threadIdx.x];  // bug: race
}

// launch: (1,), (64,), (floats(64), zeros(64))
extern "C" __global__ void tile_too_small(const float* x, float* y) {
    __shared__ float s[64];
    auto tile = cooperative_groups::tiled_partition<16>(cooperative_groups::this_thread_block());
    s[threadIdx.x] = x[threadIdx.x];
    tile.sync();
    y[threadIdx.x] = s[threadIdx.x ^ 16];  // bug: race
}

// launch: (1,), (32,), (floats(32), zeros(32))
extern "C" __global__ void read_and_write(const float* x, float* y) {
    __shared__ float s[32];
    s[threadIdx.x] = x[threadIdx.x];
    __syncwarp();
    s[threadIdx.x] = s[(threadIdx.x + 1) % 32];  // bug: race
    __syncwarp();
    y[threadIdx.x] = s[threadIdx.x];
}

// launch: (1,), (64,), (floats(64), zeros(64))
extern "C" __global__ void another_warp_still_reads(const float* x, float* y) {
    __shared__ float s;
    if (threadIdx.x == 0) s = x[0];
    __syncthreads();
    y[threadIdx.x] = s;
    __syncwarp();
    if (threadIdx.x == 32) s = 2;  // bug: race
}
