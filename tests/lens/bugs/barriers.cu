// Barriers and collectives that not every thread reaches.

// launch: (1,), (64,), (floats(64), zeros(64))
extern "C" __global__ void in_a_condition(const float* x, float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x < 48) __syncthreads();  // bug: divergent barrier
    y[threadIdx.x] = s[threadIdx.x];
}

// launch: (1,), (64,), (floats(64), zeros(64), 40)
extern "C" __global__ void before_a_return(const float* x, float* y, int n) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x < n) __syncthreads();  // bug: divergent barrier
    if (threadIdx.x >= n) return;
    y[threadIdx.x] = s[threadIdx.x];
}

// launch: (1,), (64,), (floats(64), zeros(64), 40)
extern "C" __global__ void after_a_return_too(const float* x, float* y, int n) {
    __shared__ float s[64];
    if (threadIdx.x >= n) return;  // who has returned is not waited for, and who goes another way is
    s[threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x < 8) __syncthreads();  // bug: divergent barrier
    else __syncthreads();
    y[threadIdx.x] = s[threadIdx.x];
}

// launch: (1,), (64,), (floats(64), zeros(64))
extern "C" __global__ void two_of_them(const float* x, float* y) {
    __shared__ float s[64];
    s[threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x % 2)
        __syncthreads();  // bug: divergent barrier
    else
        __syncthreads();
    y[threadIdx.x] = s[threadIdx.x];
}

// launch: (1,), (32,), (floats(32), zeros(32))
extern "C" __global__ void mask_names_too_many(const float* x, float* y) {
    float value = x[threadIdx.x];
    if (threadIdx.x < 16)
        value += __shfl_xor_sync(0xffffffffu, value, 1);  // bug: deadlock
    else
        value += __shfl_down_sync(0xffffffffu, value, 1);
    y[threadIdx.x] = value;
}
