// Accesses past the ends of what the kernel has been given.

// launch: (5,), (64,), (floats(300), zeros(300))
extern "C" __global__ void no_guard(const float* x, float* y) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    y[i] = 2 * x[i];  // bug: out of bounds
}

// launch: (5,), (64,), (floats(300), zeros(300), 300)
extern "C" __global__ void guard_one_too_far(const float* x, float* y, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i <= n) y[i] = 2 * x[i];  // bug: out of bounds
}

// launch: (1,), (64,), (floats(64), zeros(64))
extern "C" __global__ void left_neighbour(const float* x, float* y) {
    y[threadIdx.x] = x[int(threadIdx.x) - 1];  // bug: out of bounds
}

// launch: (1,), (32,), (floats(32), zeros(32))
extern "C" __global__ void static_array(const float* x, float* y) {
    __shared__ float s[32];
    s[threadIdx.x + 1] = x[threadIdx.x];  // bug: out of bounds
    __syncthreads();
    y[threadIdx.x] = threadIdx.x ? s[threadIdx.x] : 0;
}

// launch: (1,), (32,), (floats(32), zeros(32))
extern "C" __global__ void local_array(const float* x, float* y) {
    float own[4];
    for (int k = 0; k <= 4; ++k) own[k] = k * x[threadIdx.x];  // bug: out of bounds
    y[threadIdx.x] = own[threadIdx.x % 4];
}

// launch: (1,), (64,), (floats(64), zeros(64)), 64 * 4
extern "C" __global__ void dynamic_array(const float* x, float* y) {
    extern __shared__ float s[];
    s[threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x == 0) s[64] = 0;  // bug: out of bounds
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x];
}

// launch: (1,), (32,), (floats(32), zeros(32), 2**28)
extern "C" __global__ void far_away(const float* x, float* y, int n) {
    y[threadIdx.x] = x[threadIdx.x + 32 + n / 16];  // bug: out of bounds
}

// launch: (1,), (32,), (None, zeros(32))
extern "C" __global__ void null_pointer(const float* x, float* y) {
    y[threadIdx.x] = x[threadIdx.x];  // bug: out of bounds
}

// launch: (2,), (8, 8), (floats(16 * 7), zeros(16 * 7), 7)
extern "C" __global__ void last_row(const float* x, float* y, int columns) {
    const int row = blockIdx.x * 8 + threadIdx.y, column = threadIdx.x;
    y[row * columns + column] = x[row * columns + column];  // bug: out of bounds
}

// launch: (1,), (32,), (floats(126), zeros(128))
extern "C" __global__ void last_vector(const float4* x, float4* y) {
    y[threadIdx.x] = x[threadIdx.x];  // bug: out of bounds
}

__constant__ float weights[3] = {1, 2, 1};
// launch: (1,), (32,), (floats(36), zeros(32))
extern "C" __global__ void constants(const float* x, float* y) {
    float sum = 0;
    for (int k = 0; k < 4; ++k) sum += weights[k] * x[threadIdx.x + k];  // bug: out of bounds
    y[threadIdx.x] = sum;
}

// launch: (1,), (32,), (integers(32, 40), zeros(32, torch.int32))
extern "C" __global__ void gathered_atomics(const int* x, int* counts) {
    atomicAdd(&counts[x[threadIdx.x]], 1);  // bug: out of bounds
}
