// The sum of x in one launch: the block that finishes last adds
// up what all have left in `partial`.
extern "C" __global__ void last_block(
    const float* x, float* partial, unsigned* done, float* sum)
{
    float mine = x[blockIdx.x * 32 + threadIdx.x];
    for (int apart = 16; apart > 0; apart /= 2)
        mine += __shfl_xor_sync(0xffffffff, mine, apart);
    if (threadIdx.x > 0) return;
    partial[blockIdx.x] = mine;
    __threadfence();
    if (atomicAdd(done, 1) < gridDim.x - 1) return;
    __threadfence();
    float total = 0.0f;
    for (int b = 0; b < gridDim.x; ++b) total += partial[b];
    *sum = total;
}
