// Random numbers made in the kernel.

__device__ inline uint4 philox4x32(uint4 counter, uint2 key)
{
    for (int round = 0; round < 10; ++round) {
        const unsigned hi0 = __umulhi(0xD2511F53u, counter.x), lo0 = 0xD2511F53u * counter.x;
        const unsigned hi1 = __umulhi(0xCD9E8D57u, counter.z), lo1 = 0xCD9E8D57u * counter.z;
        counter = make_uint4(hi1 ^ counter.y ^ key.x, lo1, hi0 ^ counter.w ^ key.y, lo0);
        key.x += 0x9E3779B9u;
        key.y += 0xBB67AE85u;
    }
    return counter;
}

// Four elements a thread from one call of the generator; the mask is kept for the backward pass.
__global__ void dropout_philox(const float* x, float* y, unsigned char* mask, int n, float p, unsigned long long seed, unsigned offset)
{
    const unsigned tid = blockIdx.x * blockDim.x + threadIdx.x;
    const uint4 r = philox4x32(make_uint4(tid, offset, 0u, 0u), make_uint2((unsigned)seed, (unsigned)(seed >> 32)));
    const unsigned bits[4] = {r.x, r.y, r.z, r.w};
    const float scale = 1.0f / (1.0f - p);
    for (int j = 0; j < 4; ++j) {
        const unsigned i = tid * 4 + j;
        if (i >= n) return;
        const bool keep = bits[j] * 2.3283064365386963e-10f >= p;  // 2^-32
        mask[i] = keep;
        y[i] = keep ? x[i] * scale : 0.0f;
    }
}

// xorshift32, a stream a thread; darts at a quarter of a circle, counted exactly in integers.
__global__ void pi_darts(unsigned long long *hits, int throws_per_thread)
{
    __shared__ unsigned block_hits;
    if (threadIdx.x == 0) block_hits = 0;
    __syncthreads();
    unsigned state = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u + 12345u;
    unsigned mine = 0;
    for (int t = 0; t < throws_per_thread; ++t) {
        unsigned xy[2];
        for (int k = 0; k < 2; ++k) {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            xy[k] = state >> 16;
        }
        if ((unsigned long long)xy[0] * xy[0] + (unsigned long long)xy[1] * xy[1] < (1ull << 32)) mine++;
    }
    atomicAdd(&block_hits, mine);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(hits, (unsigned long long)block_hits);
}

// Normal numbers in pairs, by Box and Muller from a linear congruential generator of 64 bits.
__global__ void normal_pairs(float2* out, int pairs, unsigned long long seed)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pairs) return;
    unsigned long long s = seed + i * 0x9E3779B97F4A7C15ull;
    auto next = [&s]() -> unsigned {
        s = s * 6364136223846793005ull + 1442695040888963407ull;
        return (unsigned)(s >> 40);  // 24 bits
    };
    const float u = (next() + 1) * 5.9604645e-8f, v = next() * 5.9604645e-8f;
    const float radius = sqrtf(-2.0f * logf(u));
    float sine, cosine;
    sincospif(2.0f * v, &sine, &cosine);
    out[i] = make_float2(radius * cosine, radius * sine);
}
