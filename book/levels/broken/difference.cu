// y[i] = x[i] - x[i - 1], the neighbour from shared memory.
extern "C" __global__ void difference(const float* x, float* y)
{
    __shared__ float line[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    line[threadIdx.x] = x[i];
    float before = i > 0 ? x[i - 1] : 0.0f;  // of another block
    if (threadIdx.x > 0) before = line[threadIdx.x - 1];
    y[i] = line[threadIdx.x] - before;
}
