// Level 5: a histogram in CUDA C: counts[b] is how many of n values are b. T is long long, int or unsigned char.

#include "packs.cuh"

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

// 16 bytes a load, whatever x begins at; and so few blocks that what they add in the end is little beside what they count. Where
// one has all of x, it stores the counts, and nobody need have made them zeros.
template <typename T>
__global__ void histogram_packs(const T* x, unsigned long long* counts, long long n, int bins)
{
    extern __shared__ unsigned own[];
    for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) own[bin] = 0;
    __syncthreads();
    auto count = [&](long long value) {
        assert(0 <= value && value < bins && "x");
        atomicAdd(own + value, 1u);
    };
    constexpr int SIZE = 16 / sizeof(T);
    const long long before = min((long long)(-(unsigned long long)x % 16 / sizeof(T)), n), packs = (n - before) / SIZE;
    const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x, apart = (long long)gridDim.x * blockDim.x;
    for (long long i = first; i < packs; i += apart) {
        const Pack<T, SIZE> pack = load_pack<SIZE>(x + before + i * SIZE);
        for (int v = 0; v < SIZE; ++v) count(((const T*)&pack.bits)[v]);
    }
    if (first < n - packs * SIZE) count(x[first < before ? first : first + packs * SIZE]);
    __syncthreads();
    for (int bin = threadIdx.x; bin < bins; bin += blockDim.x) {
        if (gridDim.x == 1)
            counts[bin] = own[bin];
        else if (own[bin])
            atomicAdd(counts + bin, (unsigned long long)own[bin]);
    }
}
