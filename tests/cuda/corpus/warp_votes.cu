// Votes, matches, reductions of a warp and of a block by single instructions.

// Runs of equal keys counted by one lane each.
__global__ void match_histogram(const int* keys, unsigned* bins, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned active = __ballot_sync(0xffffffff, i < n);
    if (i >= n) return;
    const unsigned peers = __match_any_sync(active, keys[i]);
    if ((threadIdx.x & 31) == __ffs(peers) - 1) atomicAdd(&bins[keys[i]], __popc(peers));
}

__global__ void warp_summary(const unsigned* x, unsigned* sum, unsigned* low, unsigned* high, unsigned* bits)
{
    const unsigned v = x[blockIdx.x * 32 + threadIdx.x];
    const unsigned s = __reduce_add_sync(0xffffffff, v), lo = __reduce_min_sync(0xffffffff, v);
    const unsigned hi = __reduce_max_sync(0xffffffff, v), all = __reduce_xor_sync(0xffffffff, v);
    if (threadIdx.x == 0) {
        sum[blockIdx.x] = s;
        low[blockIdx.x] = lo;
        high[blockIdx.x] = hi;
        bits[blockIdx.x] = all;
    }
}

// Barriers that count, and that vote.
__global__ void block_votes(const int* x, int4* votes, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int v = i < n ? x[i] : 1;
    const int even = __syncthreads_count(v % 2 == 0);
    const int all = __syncthreads_and(v > 0), any = __syncthreads_or(v > 95);
    if (threadIdx.x == 0) votes[blockIdx.x] = make_int4(even, all != 0, any != 0, blockDim.x);
}

// The lanes that took this branch.
__global__ void branch_population(const float* x, int* lanes, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned here = __ballot_sync(__activemask(), x[i] < 0.0f);
    lanes[i] = __popc(here);
}

// A matrix transposed within a warp, a row a lane, by shuffles alone; then every lane asks any other.
__global__ void warp_transpose(const float* in, float* out)
{
    float row[8];
    const int lane = threadIdx.x % 8;
    in += (threadIdx.x / 8 + blockIdx.x * (blockDim.x / 8)) * 64;
    out += (threadIdx.x / 8 + blockIdx.x * (blockDim.x / 8)) * 64;
    for (int j = 0; j < 8; ++j) row[j] = in[lane * 8 + j];
    float result[8];
    #pragma unroll
    for (int shift = 0; shift < 8; ++shift) {
        const int give = (lane - shift) & 7, take = (lane + shift) & 7;
        float offered = row[0];
        #pragma unroll
        for (int j = 1; j < 8; ++j)
            if (j == give) offered = row[j];
        result[take] = __shfl_sync(0xffffffff, offered, take, 8);
    }
    for (int j = 0; j < 8; ++j) out[lane * 8 + j] = result[j];
}
