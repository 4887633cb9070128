// The largest value of each row of N. One block does one row.
// warp_parts has a float for each warp of the block.
extern "C" __global__ void row_max(
    const float* x, float* y, int N)
{
    extern __shared__ float warp_parts[];
    x += blockIdx.x * N;
    float most = x[0];
    for (int j = threadIdx.x; j < N; j += blockDim.x)
        most = fmaxf(most, x[j]);
    for (int apart = 16; apart > 0; apart /= 2)
        most = fmaxf(most, __shfl_xor_sync(~0u, most, apart));
    if (threadIdx.x % 32 == 0) warp_parts[threadIdx.x / 32] = most;
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int warp = 1; warp < blockDim.x / 32; ++warp)
        most = fmaxf(most, warp_parts[warp]);
    y[blockIdx.x] = most;
}
