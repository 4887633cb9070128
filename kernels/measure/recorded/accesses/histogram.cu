// bins[b] += how often the number b is among x[0] to x[n - 1].

// One atomic addition in global memory for each number.
__global__ void global_bins(const int* x, int* bins, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[x[i]], 1);
}

// Each block counts in shared memory and adds its `count` bins to the whole once.
__global__ void shared_bins(const int* x, int* bins, int count, int n)
{
    extern __shared__ int mine[];
    for (int b = threadIdx.x; b < count; b += blockDim.x) {
        mine[b] = 0;
    }
    __syncthreads();
#pragma unroll 4
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(&mine[x[i]], 1);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < count; b += blockDim.x) {
        atomicAdd(&bins[b], mine[b]);
    }
}
