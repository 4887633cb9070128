// Sums of a vector, from a tree in shared memory to atomics.

// Interleaved addressing with a divergent condition.
__global__ void tree_interleaved(const float* x, float* sums)
{
    extern __shared__ float partial[];
    int t = threadIdx.x;
    partial[t] = x[blockIdx.x * blockDim.x + t];
    __syncthreads();
#pragma unroll 1
    for (int step = 1; step < blockDim.x; step *= 2) {
        if (t % (2 * step) == 0) {
            partial[t] += partial[t + step];
        }
        __syncthreads();
    }
    if (t == 0) {
        sums[blockIdx.x] = partial[0];
    }
}

// Interleaved addressing without divergence, which has bank conflicts.
__global__ void tree_conflicts(const float* x, float* sums)
{
    extern __shared__ float partial[];
    int t = threadIdx.x;
    partial[t] = x[blockIdx.x * blockDim.x + t];
    __syncthreads();
#pragma unroll 1
    for (int step = 1; step < blockDim.x; step *= 2) {
        int i = 2 * step * t;
        if (i < blockDim.x) {
            partial[i] += partial[i + step];
        }
        __syncthreads();
    }
    if (t == 0) {
        sums[blockIdx.x] = partial[0];
    }
}

// Sequential addressing.
__global__ void tree_sequential(const float* x, float* sums, int n)
{
    extern __shared__ float partial[];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    float value = 0.0f;
    if (i < n) {
        value = x[i];
    }
    partial[t] = value;
    __syncthreads();
#pragma unroll 1
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) {
            partial[t] += partial[t + half];
        }
        __syncthreads();
    }
    if (t == 0) {
        sums[blockIdx.x] = partial[0];
    }
}

// Shuffles within a warp, then one value a warp in shared memory.
__global__ void shuffles(const float* x, float* sums, int n)
{
    __shared__ float of_warp[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float sum = 0.0f;
#pragma unroll 1
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        sum += x[i];
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffff, sum, offset);
    }
    if (lane == 0) {
        of_warp[warp] = sum;
    }
    __syncthreads();
    if (warp == 0) {
        sum = 0.0f;
        if (lane < blockDim.x / 32) {
            sum = of_warp[lane];
        }
        for (int offset = 16; offset > 0; offset /= 2) {
            sum += __shfl_down_sync(0xffffffff, sum, offset);
        }
        if (lane == 0) {
            sums[blockIdx.x] = sum;
        }
    }
}

// One atomic a thread, to one address.
__global__ void atomics(const float* x, float* total, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float value = x[i];
        atomicAdd(total, value);
    }
}

// A shuffle tree, then one atomic a warp.
__global__ void atomic_per_warp(const float* x, float* total, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
    if (i < n) {
        sum = x[i];
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, offset);
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd(total, sum);
    }
}

// The largest element and where it is: two arrays in shared memory.
__global__ void argmax(const float* x, float* best, int* where, int n)
{
    __shared__ float values[256];
    __shared__ int indices[256];
    int t = threadIdx.x;
    float value = -1e30f;
    int index = -1;
#pragma unroll 1
    for (int i = t; i < n; i += blockDim.x) {
        float next = x[blockIdx.x * n + i];
        if (next > value) {
            value = next;
            index = i;
        }
    }
    values[t] = value;
    indices[t] = index;
    __syncthreads();
#pragma unroll 1
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) {
            float mine = values[t];
            float other = values[t + half];
            if (other > mine) {
                values[t] = other;
                indices[t] = indices[t + half];
            }
        }
        __syncthreads();
    }
    if (t == 0) {
        best[blockIdx.x] = values[0];
        where[blockIdx.x] = indices[0];
    }
}
