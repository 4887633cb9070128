// Shared memory that is read before anybody has written it.

// launch: (1,), (64,), (integers(64, 16), zeros(16, torch.int32))
extern "C" __global__ void bins_not_cleared(const int* x, int* counts) {
    __shared__ int bins[16];
    atomicAdd(&bins[x[threadIdx.x]], 1);  // bug: uninitialised read
    __syncthreads();
    if (threadIdx.x < 16) counts[threadIdx.x] = bins[x[threadIdx.x]];
}

// launch: (1,), (64,), (floats(50), zeros(1), 50)
extern "C" __global__ void guarded_load(const float* x, float* y, int n) {
    __shared__ float s[64];
    if (threadIdx.x < n) s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];  // bug: uninitialised read
        __syncthreads();
    }
    if (threadIdx.x == 0) *y = s[0];
}

// launch: (1,), (64,), (floats(64), zeros(64)), 66 * 4
extern "C" __global__ void halo_left_out(const float* x, float* y) {
    extern __shared__ float line[];
    line[threadIdx.x + 1] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = line[threadIdx.x] + line[threadIdx.x + 2];  // bug: uninitialised read
}

// launch: (2,), (32,), (floats(64), zeros(64))
extern "C" __global__ void written_by_the_other_block(const float* x, float* y) {
    __shared__ float s[32];
    if (blockIdx.x == 0) s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[blockIdx.x * 32 + threadIdx.x] = s[threadIdx.x];  // bug: uninitialised read
}
