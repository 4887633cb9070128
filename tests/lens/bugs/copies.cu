// Asynchronous copies that are read before they have landed, or before others may.
#include <cuda_pipeline.h>

// launch: (1,), (64,), (floats(64), zeros(64))
extern "C" __global__ void no_wait(const float* x, float* y) {
    __shared__ float s[64];
    __pipeline_memcpy_async(&s[threadIdx.x], &x[threadIdx.x], 4);
    __pipeline_commit();
    y[threadIdx.x] = s[threadIdx.x];  // bug: unfinished copy
}

// launch: (1,), (64,), (floats(64), zeros(64))
extern "C" __global__ void a_barrier_is_no_wait(const float* x, float* y) {
    __shared__ float s[64];
    __pipeline_memcpy_async(&s[threadIdx.x], &x[threadIdx.x], 4);
    __pipeline_commit();
    __syncthreads();
    y[threadIdx.x] = s[63 - threadIdx.x];  // bug: unfinished copy
}

// launch: (1,), (64,), (floats(64), zeros(64))
extern "C" __global__ void a_wait_is_no_barrier(const float* x, float* y) {
    __shared__ float s[64];
    __pipeline_memcpy_async(&s[threadIdx.x], &x[threadIdx.x], 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    y[threadIdx.x] = s[63 - threadIdx.x];  // bug: race
}

// launch: (1,), (64,), (floats(640), zeros(64))
extern "C" __global__ void waits_for_too_few(const float* x, float* y) {
    __shared__ float s[2][64];
    float sum = 0;
    __pipeline_memcpy_async(&s[0][threadIdx.x], &x[threadIdx.x], 4);
    __pipeline_commit();
    for (int k = 0; k < 10; ++k) {
        if (k < 9) __pipeline_memcpy_async(&s[(k + 1) % 2][threadIdx.x], &x[(k + 1) * 64 + threadIdx.x], 4);  // bug: unfinished copy
        __pipeline_commit();
        __pipeline_wait_prior(2);
        sum += s[k % 2][threadIdx.x];  // bug: unfinished copy
    }
    y[threadIdx.x] = sum;
}

// launch: (1,), (64,), (floats(640), zeros(64))
extern "C" __global__ void copied_over_what_is_read(const float* x, float* y) {
    __shared__ float s[64];
    float sum = 0;
    for (int k = 0; k < 10; ++k) {
        __pipeline_memcpy_async(&s[threadIdx.x], &x[k * 64 + threadIdx.x], 4);  // bug: race
        __pipeline_commit();
        __pipeline_wait_prior(0);
        __syncthreads();
        sum += s[63 - threadIdx.x];
    }
    y[threadIdx.x] = sum;
}
