// Kernels whose requests, sectors and wavefronts can be counted by hand.
#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

#define I (blockIdx.x * blockDim.x + threadIdx.x)

extern "C" __global__ void copy(const float* x, float* y, int stride, int offset) {
    y[I] = x[I * stride + offset];
}
extern "C" __global__ void copy4(const float4* x, float4* y) { y[I] = x[I]; }
extern "C" __global__ void copy_half(const __half* x, __half* y) { y[I] = x[I]; }
extern "C" __global__ void copy_pairs(const __half2* x, __half2* y) { y[I] = x[I]; }
extern "C" __global__ void half_as_float(const __half* x, float* y) { y[I] = (float)x[I]; }
extern "C" __global__ void copy_bytes(const unsigned char* x, unsigned char* y) { y[I] = x[I]; }
extern "C" __global__ void copy_double(const double* x, double* y) { y[I] = x[I]; }
struct Point { float x, y, z; };
extern "C" __global__ void copy_points(const Point* x, Point* y) { y[I] = x[I]; }
extern "C" __global__ void first_of_points(const Point* x, float* y) { y[I] = x[I].x; }

template <int columns>
__global__ void transpose(const float* x, float* y) {
    __shared__ float tile[32][columns];
    tile[threadIdx.y][threadIdx.x] = x[threadIdx.y * 32 + threadIdx.x];
    __syncthreads();
    y[threadIdx.y * 32 + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
template <class T>
__global__ void through_shared(const T* x, T* y, int stride) {
    extern __shared__ __align__(16) unsigned char memory[];
    T* values = (T*)memory;
    values[threadIdx.x * stride] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = values[threadIdx.x * stride];
}

extern "C" __global__ void guarded(const float* x, float* y, int n) {
    if (I < n) y[I] = x[I];
}
extern "C" __global__ void in_2d(const float* x, float* y, int width) {
    const int at = threadIdx.y * width + threadIdx.x;
    y[at] = x[at];
}
extern "C" __global__ void trip_counts(const float* x, float* y) {
    float sum = 0;
    for (int k = 0; k < threadIdx.x; ++k) sum += x[k * 32 + threadIdx.x];
    y[threadIdx.x] = sum;
}
extern "C" __global__ void alternating(const float* x, float* y) {
    float sum = 0;
    for (int k = 0; k < 4; ++k)
        if ((threadIdx.x + k) & 1) sum += x[k * 32 + threadIdx.x];
    y[threadIdx.x] = sum;
}
extern "C" __global__ void branches(const float* x, float* y) {
    float value;
    if (threadIdx.x & 1)
        value = x[threadIdx.x];
    else
        value = x[32 + threadIdx.x];
    y[threadIdx.x] = value;
}
__device__ float found(const float* x, int lane) {
    for (int k = 0; k < 32; ++k) {
        if (k == lane) return x[32 * k];
        if (k % 2) continue;
        if (x[k] < 0) break;
    }
    return 0;
}
extern "C" __global__ void early_exits(const float* x, float* y) { y[threadIdx.x] = found(x, threadIdx.x); }

extern "C" __global__ void many_atomics(float* sum, int times) {
    for (int k = 0; k < times; ++k) atomicAdd(&sum[threadIdx.x], 1.0f);
}
__device__ unsigned counter;
__constant__ float table[32];
extern "C" __global__ void atomics(float* sum, int* bins) {
    __shared__ int local[32];
    local[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(sum, 1.0f);
    atomicAdd(&bins[threadIdx.x * 8], 1);
    atomicAdd(&local[threadIdx.x % 2], 1);
    atomicInc(&counter, 7u);
    __syncthreads();
    bins[threadIdx.x] = local[threadIdx.x] + int(table[threadIdx.x]);
}
extern "C" __global__ void compare_and_swap(int* x) {
    int seen = *x, expected;
    do {
        expected = seen;
        seen = atomicCAS(x, expected, expected + 1);
    } while (seen != expected);
}

extern "C" __global__ void shuffled(const float* x, float* y) {
    float value = __ldg(&x[threadIdx.x]);
    for (int step = 16; step; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    __syncwarp();
    if (threadIdx.x == 0) y[0] = value;
}
extern "C" __global__ void long_rows(const float* x, float* y, int columns) {
    float sum = 0;
    for (int k = 0; k < columns; ++k) sum += x[(size_t)I * columns + k];
    y[I] = sum;
}
extern "C" __global__ void long_rows_with_barriers(const float* x, float* y, int columns) {
    __shared__ float last;
    float sum = 0;
    for (int k = 0; k < columns; ++k) {
        sum += x[(size_t)threadIdx.x * columns + k];
        if (k % 1000 == 999) {
            __syncthreads();
            if (threadIdx.x == k % 64) last = sum;
            __syncthreads();
        }
    }
    y[threadIdx.x] = sum + 0 * last;
}
extern "C" __global__ void asynchronous(const float4* x, float4* y) {
    __shared__ float4 tile[64];
    __pipeline_memcpy_async(&tile[threadIdx.x], &x[threadIdx.x], 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    y[threadIdx.x] = tile[63 - threadIdx.x];
}
extern "C" __global__ void grid_wide(float* x, float* y) {
    x[I] = float(I);
    cooperative_groups::this_grid().sync();
    y[I] = x[gridDim.x * blockDim.x - 1 - I];
}
__device__ int launches;
extern "C" __global__ void remember(int* x) {
    if (I == 0) x[0] = ++launches;
}
extern "C" __global__ void look_up(float* y) { y[threadIdx.x] = table[threadIdx.x]; }

extern "C" __global__ void one_sided_barrier(float* x) {
    x[threadIdx.x] = 1;
    if (threadIdx.x < 7) __syncthreads();
}
extern "C" __global__ void out_of_bounds(float* x, int at) { x[at] = 1; }
__device__ float deep(const float* x, int n) {
    volatile float memory[64];
    for (int k = 0; k < 64; ++k) memory[k] = x[k];
    return n == 0 ? memory[7] : deep(x, n - 1) + memory[n % 64];
}
extern "C" __global__ void too_deep(const float* x, float* y, int n) { y[0] = deep(x, n); }
extern "C" __global__ void sums_of_blocks(const float* x, float* y) {
    y[I] = blockIdx.x % 2 ? x[I] : 0.0f;
}
extern "C" __global__ void detour(const float* x, float* y) {
    float value = x[threadIdx.x];
    if (threadIdx.x % 2) goto further_down;
meet:
    __syncthreads();
    y[threadIdx.x] = value;
    return;
further_down:
    value += x[32 + threadIdx.x];
    goto meet;
}
