// Each thread makes `loads` loads, in CHAINS chains: within a chain, a load's value is where the next one reads.

template <int CHAINS>
__global__ void chain(const int* next, int* ends, int loads, int n)
{
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    int at[CHAINS];
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) {
        at[c] = (thread * CHAINS + c) % n;
    }
#pragma unroll 1
    for (int step = 0; step < loads / CHAINS; ++step) {
#pragma unroll
        for (int c = 0; c < CHAINS; ++c) {
            at[c] = next[at[c]];
        }
    }
    int sum = 0;
#pragma unroll
    for (int c = 0; c < CHAINS; ++c) {
        sum += at[c];
    }
    ends[thread] = sum;
}
