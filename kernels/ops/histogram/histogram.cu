// Level 5: a histogram in CUDA C: counts[b] is how many of n values are b. T is long long, int or unsigned char.

#include <assert.h>

template <int THREADS>
__global__ void histogram_zeros(long long* counts, int bins)
{
    const int bin = blockIdx.x * THREADS + threadIdx.x;
    if (bin < bins) counts[bin] = 0;
}

// An atomic addition in global memory for each value: where many are equal, they wait for one address.
template <typename T>
__global__ void histogram_global(const T* x, unsigned long long* counts, long long n, int bins)
{
    const long long apart = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += apart) {
        const long long value = x[i];
        assert(0 <= value && value < bins && "x");
        atomicAdd(counts + value, 1ull);
    }
}

// Each block counts in shared memory, where atomics are near, and adds what it has to the counts of all: one addition in global
// memory a block and bin that is not empty, not a value.
template <typename T>
__global__ void histogram_private(const T* x, unsigned long long* counts, long long n, int bins)
{
    extern __shared__ unsigned own[];
    for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) own[bin] = 0;
    __syncthreads();
    const long long apart = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += apart) {
        const long long value = x[i];
        assert(0 <= value && value < bins && "x");
        atomicAdd(own + value, 1u);
    }
    __syncthreads();
    for (int bin = threadIdx.x; bin < bins; bin += blockDim.x)
        if (own[bin]) atomicAdd(counts + bin, (unsigned long long)own[bin]);
}
