// Counting: atomics in global and in shared memory.

// One global atomic an element.
__global__ void global_bins(const int* x, int* bins, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int bin = x[i];
        atomicAdd(&bins[bin], 1);
    }
}

// A histogram of each block in shared memory, added to the whole at the end.
__global__ void shared_bins(const int* x, int* bins, int count, int n)
{
    extern __shared__ int mine[];
#pragma unroll 1
    for (int b = threadIdx.x; b < count; b += blockDim.x) {
        mine[b] = 0;
    }
    __syncthreads();
#pragma unroll 1
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int bin = x[i];
        atomicAdd(&mine[bin], 1);
    }
    __syncthreads();
#pragma unroll 1
    for (int b = threadIdx.x; b < count; b += blockDim.x) {
        int number = mine[b];
        atomicAdd(&bins[b], number);
    }
}

// The bins of bytes, four read at a time.
__global__ void byte_bins(const uchar4* x, unsigned* bins, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        uchar4 four = x[i];
        atomicAdd(&bins[four.x], 1u);
        atomicAdd(&bins[four.y], 1u);
        atomicAdd(&bins[four.z], 1u);
        atomicAdd(&bins[four.w], 1u);
    }
}

// An atomic whose old value is used: a place in the output for each positive element.
__global__ void append(const float* x, float* out, int* count, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float value = x[i];
        int place = atomicExch(&count[i], i);
        out[place] = value;
    }
}

// The largest of each bin.
__global__ void largest(const int* keys, const int* values, int* best, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int key = keys[i];
        int value = values[i];
        atomicMax(&best[key], value);
    }
}

// Sums of floats in shared memory: this hardware has no such atomic, the compiler writes a loop.
__global__ void shared_float_bins(const int* keys, const float* weights, float* sums, int n)
{
    __shared__ float mine[64];
    if (threadIdx.x < 64) {
        mine[threadIdx.x] = 0.0f;
    }
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int key = keys[i];
        float weight = weights[i];
        atomicAdd(&mine[key], weight);
    }
    __syncthreads();
    if (threadIdx.x < 64) {
        float sum = mine[threadIdx.x];
        atomicAdd(&sums[threadIdx.x], sum);
    }
}
