// sums[b] = the sum of the 256 floats that block b reads, one a thread. And what a barrier costs.

// Nine barriers: after the store, and after each halving.
__global__ void reduce_shared(const float* x, float* sums)
{
    __shared__ float partial[256];
    partial[threadIdx.x] = x[(long long)blockIdx.x * 256 + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = partial[0];
}

// One barrier: shuffles within each warp, shared memory for the eight sums of warps.
__global__ void reduce_shuffles(const float* x, float* sums)
{
    __shared__ float warp_parts[8];
    float sum = x[(long long)blockIdx.x * 256 + threadIdx.x];
#pragma unroll
    for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffff, sum, apart);
    if (threadIdx.x % 32 == 0) warp_parts[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    sum = threadIdx.x < 8 ? warp_parts[threadIdx.x] : 0.0f;
#pragma unroll
    for (int apart = 4; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffff, sum, apart);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void passes(float* y, int passes)
{
    float value = 0.0f;
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
        value = value * 0.5f + 1.0f;
    }
    y[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

__global__ void passes_with_barrier(float* y, int passes)
{
    float value = 0.0f;
#pragma unroll 1
    for (int pass = 0; pass < passes; ++pass) {
        value = value * 0.5f + 1.0f;
        __syncthreads();
    }
    y[blockIdx.x * blockDim.x + threadIdx.x] = value;
}
