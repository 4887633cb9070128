"""Other ways to write a reduction of a block."""

_HEAD = "__global__ void row_argmax(float* value, int* index, const float* x, int N)\n{\n"

ACCEPTED = {
    "row_argmax": {
        "down, and one thread for the warps": _HEAD
        + """    __shared__ float values[8];
    __shared__ int indices[8];
    float v = -INFINITY;
    int i = 0x7fffffff;
    for (int n = threadIdx.x; n < N; n += 256) {
        float candidate = x[(size_t)blockIdx.x * N + n];
        if (candidate > v || i == 0x7fffffff) v = candidate, i = n;
    }
    for (int apart = 16; apart; apart >>= 1) {
        float w = __shfl_down_sync(~0u, v, apart);
        int j = __shfl_down_sync(~0u, i, apart);
        if (w > v || (w == v && j < i)) v = w, i = j;
    }
    if (threadIdx.x % 32 == 0) values[threadIdx.x / 32] = v, indices[threadIdx.x / 32] = i;
    __syncthreads();
    if (threadIdx.x) return;
    for (int warp = 1; warp < 8; ++warp)
        if (values[warp] > v || (values[warp] == v && indices[warp] < i)) v = values[warp], i = indices[warp];
    value[blockIdx.x] = v;
    index[blockIdx.x] = i;
}""",
        "one number of 64 bits": """__device__ unsigned long long packed(float v, int n)
{
    unsigned bits = __float_as_uint(v + 0.0f);  // −0 becomes 0
    bits = bits & 0x80000000 ? ~bits : bits | 0x80000000;
    return (unsigned long long)bits << 32 | (unsigned)~n;
}
"""
        + _HEAD
        + """    __shared__ unsigned long long warp_parts[8];
    unsigned long long best = 0;
    for (int n = threadIdx.x; n < N; n += blockDim.x) best = max(best, packed(x[(size_t)blockIdx.x * N + n], n));
    for (int apart = 1; apart < 32; apart *= 2) best = max(best, __shfl_xor_sync(0xffffffffu, best, apart));
    if (threadIdx.x % 32 == 0) warp_parts[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < 8; ++warp) best = max(best, warp_parts[warp]);
        int n = ~(unsigned)best;
        value[blockIdx.x] = x[(size_t)blockIdx.x * N + n];
        index[blockIdx.x] = n;
    }
}""",
        "vector loads": _HEAD
        + """    __shared__ float values[8];
    __shared__ int indices[8];
    const float* row = x + (size_t)blockIdx.x * N;
    float v = -INFINITY;
    int i = N, width = N % 4 ? 1 : 4;
    for (int n = width * threadIdx.x; n < N; n += 256 * width) {
        float four[4];
        if (width == 4) *(float4*)four = *(const float4*)(row + n);
        else four[0] = row[n];
        for (int k = 0; k < width; ++k)
            if (four[k] > v || i == N) v = four[k], i = n + k;
    }
    for (int step = 0; step < 2; ++step) {
        for (int apart = 16; apart; apart /= 2) {
            float w = __shfl_xor_sync(0xffffffff, v, apart);
            int j = __shfl_xor_sync(0xffffffff, i, apart);
            bool take = w > v || w == v && j < i;
            v = take ? w : v;
            i = take ? j : i;
        }
        if (step == 0 && threadIdx.x % 32 == 0) values[threadIdx.x / 32] = v, indices[threadIdx.x / 32] = i;
        if (step == 0) __syncthreads();
        if (threadIdx.x >= 32) return;
        if (step == 0) v = values[threadIdx.x % 8], i = indices[threadIdx.x % 8];
    }
    if (threadIdx.x == 0) value[blockIdx.x] = v, index[blockIdx.x] = i;
}""",
    }
}
