// Counting into bins.

__global__ void histo_kernel(unsigned char *buffer, long size, unsigned int *histo)
{
    __shared__ unsigned int temp[256];
    temp[threadIdx.x] = 0;
    __syncthreads();

    int i = threadIdx.x + blockIdx.x * blockDim.x;
    int offset = blockDim.x * gridDim.x;
    while (i < size) {
        atomicAdd(&temp[buffer[i]], 1);
        i += offset;
    }
    __syncthreads();
    atomicAdd(&(histo[threadIdx.x]), temp[threadIdx.x]);
}

// Letters of a text in groups of four: "a-d", "e-h" … . Runs of the same bin are counted in a register.
#define BIN(c) (((c) - 'a') / 4)
__global__ void letter_histogram(const char* text, int length, unsigned* bins, int per_thread)
{
    extern __shared__ unsigned local[];
    constexpr int kBins = 7;
    for (int b = threadIdx.x; b < kBins; b += blockDim.x) local[b] = 0u;
    __syncthreads();
    int accumulated = 0, previous = -1;
    const int start = (blockIdx.x * blockDim.x + threadIdx.x) * per_thread;
    for (int i = start; i < min(start + per_thread, length); ++i) {
        char c = text[i];
        if (c < 'a' || c > 'z') continue;
        const int bin = BIN(c);
        if (bin == previous) { ++accumulated; continue; }
        if (accumulated) atomicAdd(local + previous, (unsigned)accumulated);
        accumulated = 1;
        previous = bin;
    }
    if (accumulated) atomicAdd(local + previous, (unsigned)accumulated);
    __syncthreads();
    for (int b = threadIdx.x; b < kBins; b += blockDim.x)
        if (local[b]) atomicAdd(bins + b, local[b]);
}

// Weighted, floating point, bins by value; a copy in shared memory for each warp.
template <int kBins, int kWarps>
__global__ void __launch_bounds__(kWarps * 32)
weighted_histogram(const float* __restrict__ value, const float* __restrict__ weight, float* bins, int n, float lo, float hi)
{
    __shared__ float copies[kWarps][kBins];
    for (int b = threadIdx.x; b < kWarps * kBins; b += blockDim.x) (&copies[0][0])[b] = 0.0f;
    __syncthreads();
    const int warp = threadIdx.x / warpSize;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int b = __float2int_rd((value[i] - lo) / (hi - lo) * kBins);
        if (b >= 0 && b < kBins) atomicAdd(&copies[warp][b], weight[i]);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < kBins; b += blockDim.x) {
        float sum = 0.0f;
        for (int w = 0; w < kWarps; ++w) sum += copies[w][b];
        atomicAdd(&bins[b], sum);
    }
}
