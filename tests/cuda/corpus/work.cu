// Blocks that take work until none is left, and loops whose length the data decides.

__device__ int nextRow;

// Persistent: a counter hands out rows.
__global__ void persistent_rows(const float* x, float* norms, int rows, int cols, int* taken_by_block)
{
    __shared__ int row;
    __shared__ float part[4];
    while (true) {
        if (threadIdx.x == 0) row = atomicAdd(&nextRow, 1);
        __syncthreads();
        const int r = row;
        if (r >= rows) break;
        float s = 0;
        for (int j = threadIdx.x; j < cols; j += blockDim.x) s += x[r * cols + j] * x[r * cols + j];
        for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(0xffffffffu, s, o);
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = s;
        __syncthreads();
        if (threadIdx.x == 0) {
            norms[r] = sqrtf(part[0] + part[1] + part[2] + part[3]);
            taken_by_block[blockIdx.x]++;
        }
    }
}

// Aggregated in a warp: one atomic for all the lanes that keep their element. The order is not fixed.
__device__ int atomicAggInc(int *ctr, bool active_lane)
{
    const unsigned mask = __ballot_sync(0xffffffff, active_lane);
    const int lane = threadIdx.x & 31, leader = __ffs(mask) - 1;
    int res = 0;
    if (mask && lane == leader) res = atomicAdd(ctr, __popc(mask));
    res = __shfl_sync(0xffffffff, res, mask ? leader : 0);
    return res + __popc(mask & ((1u << lane) - 1));
}

__global__ void filter_even(int *dst, int *nres, const int *src, int n)
{
    const int i = threadIdx.x + blockIdx.x * blockDim.x;
    const bool keep = i < n && (src[i] & 1) == 0;
    const int at = atomicAggInc(nres, keep);
    if (keep) dst[at] = src[i];
}

__global__ void collatz(const long long* start, int* steps, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    long long v = start[i];
    int count = 0;
    do {
        if (v == 1) break;
        v = v & 1 ? 3 * v + 1 : v >> 1;
        ++count;
    } while (count < 1000);
    steps[i] = count;
}

// Primes by a sieve in shared memory, a segment a block.
__global__ void sieve(unsigned* counts, int segment)
{
    extern __shared__ unsigned char composite[];
    const unsigned low = blockIdx.x * segment;
    for (int i = threadIdx.x; i < segment; i += blockDim.x) composite[i] = low + i < 2;
    __syncthreads();
    for (unsigned p = 2 + threadIdx.x; p * p < low + segment; p += blockDim.x) {
        unsigned first = max(p * p, (low + p - 1) / p * p);
        for (unsigned m = first; m < low + segment; m += p) composite[m - low] = 1;
    }
    __syncthreads();
    __shared__ unsigned primes;
    if (threadIdx.x == 0) primes = 0;
    __syncthreads();
    unsigned mine = 0;
    for (int i = threadIdx.x; i < segment; i += blockDim.x) mine += !composite[i];
    atomicAdd(&primes, mine);
    __syncthreads();
    if (threadIdx.x == 0) counts[blockIdx.x] = primes;
}

// Lloyd's iteration: points to the nearest centre, then sums for each centre.
#ifndef DIMS
#define DIMS 2
#endif
__global__ void kmeans_assign(const float* points, const float* centres, int* label, float* sums, int* counts, int n, int k)
{
    extern __shared__ unsigned char mem[];
    float* c = reinterpret_cast<float*>(mem);
    float* s = c + k * DIMS;
    int* cnt = reinterpret_cast<int*>(s + k * DIMS);
    for (int i = threadIdx.x; i < k * DIMS; i += blockDim.x) c[i] = centres[i], s[i] = 0;
    for (int i = threadIdx.x; i < k; i += blockDim.x) cnt[i] = 0;
    __syncthreads();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int nearest = 0;
        float least = 3e38f;
        for (int j = 0; j < k; ++j) {
            float d2 = 0;
            for (int d = 0; d < DIMS; ++d) {
                const float diff = points[i * DIMS + d] - c[j * DIMS + d];
                d2 += diff * diff;
            }
            if (d2 < least) least = d2, nearest = j;
        }
        label[i] = nearest;
        for (int d = 0; d < DIMS; ++d) atomicAdd(&s[nearest * DIMS + d], points[i * DIMS + d]);
        atomicAdd(&cnt[nearest], 1);
    }
    __syncthreads();
    for (int j = threadIdx.x; j < k * DIMS; j += blockDim.x) atomicAdd(&sums[j], s[j]);
    for (int j = threadIdx.x; j < k; j += blockDim.x) atomicAdd(&counts[j], cnt[j]);
}
