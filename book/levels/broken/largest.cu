// The largest absolute value, by a tree in each block of 256.
// Positive floats are ordered as their bits are, so atomicMax
// can join the blocks.
extern "C" __global__ void largest(
    const float* x, unsigned* largest, int n)
{
    __shared__ unsigned s[256];
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    if (i < n) s[t] = __float_as_uint(fabsf(x[i]));
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (t < half) s[t] = max(s[t], s[t + half]);
        __syncthreads();
    }
    if (t == 0) atomicMax(largest, s[0]);
}
