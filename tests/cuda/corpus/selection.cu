// The largest, the k largest, and one drawn by its probability.

typedef struct { float value; int index; } ValueIndex;

__device__ __forceinline__ ValueIndex better(ValueIndex a, ValueIndex b)
{
    // the first of equal ones
    return (b.value > a.value || (b.value == a.value && b.index < a.index)) ? b : a;
}

__global__ void argmax_rows(const float *x, long long *out, int cols)
{
    __shared__ ValueIndex best[8];
    ValueIndex v = {__int_as_float(0xff800000), 0x7fffffff};
    for (int j = threadIdx.x; j < cols; j += blockDim.x) v = better(v, ValueIndex{x[blockIdx.x * cols + j], j});
    for (int o = 16; o; o >>= 1) {
        ValueIndex other;
        other.value = __shfl_down_sync(0xffffffff, v.value, o);
        other.index = __shfl_down_sync(0xffffffff, v.index, o);
        v = better(v, other);
    }
    if ((threadIdx.x & 31) == 0) best[threadIdx.x >> 5] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < blockDim.x / 32; ++w) v = better(v, best[w]);
        out[blockIdx.x] = v.index;
    }
}

// Over all rows at once: value and index packed into 64 bits, one atomicMax each.
__global__ void argmax_packed(const float* x, unsigned long long* best, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned u = __float_as_uint(x[i]);
    u ^= (u >> 31) ? 0xffffffffu : 0x80000000u;
    atomicMax(best, (unsigned long long)u << 32 | (0xffffffffu - (unsigned)i));
}

// k times the largest that is left, a warp a row, the row in registers.
template <int N, int K>
__global__ void topk_warp(const float* scores, float* values, int* indices, int rows)
{
    static_assert(N % 32 == 0 && K <= 32, "");
    constexpr int VPT = N / 32;
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    float v[VPT];
    for (int i = 0; i < VPT; ++i) v[i] = scores[row * N + i * 32 + threadIdx.x];
    for (int k = 0; k < K; ++k) {
        float max_val = v[0];
        int where = threadIdx.x;
        #pragma unroll
        for (int i = 1; i < VPT; ++i)
            if (v[i] > max_val) { max_val = v[i]; where = i * 32 + threadIdx.x; }
        #pragma unroll
        for (int mask = 16; mask > 0; mask /= 2) {
            const float other_max = __shfl_xor_sync(0xFFFFFFFF, max_val, mask, 32);
            const int other_where = __shfl_xor_sync(0xFFFFFFFF, where, mask, 32);
            if (other_max > max_val || (other_max == max_val && other_where < where)) {
                max_val = other_max;
                where = other_where;
            }
        }
        if (threadIdx.x == k) {
            values[row * K + k] = max_val;
            indices[row * K + k] = where;
        }
        if (where % 32 == threadIdx.x) v[where / 32] = __int_as_float(0xff800000);
    }
}

// The first index whose cumulated probability is beyond a given number.
__global__ void sample_rows(const float* probs, const float* coins, int* out, int V)
{
    __shared__ float scan[256];
    __shared__ float carry;
    __shared__ int found;
    const float coin = coins[blockIdx.x];
    if (threadIdx.x == 0) { carry = 0.0f; found = V; }
    __syncthreads();
    for (int base = 0; base < V; base += 256) {
        const int i = base + threadIdx.x;
        scan[threadIdx.x] = i < V ? probs[blockIdx.x * V + i] : 0.0f;
        __syncthreads();
        for (int d = 1; d < 256; d <<= 1) {
            const float left = threadIdx.x >= d ? scan[threadIdx.x - d] : 0.0f;
            __syncthreads();
            scan[threadIdx.x] += left;
            __syncthreads();
        }
        if (i < V && carry + scan[threadIdx.x] > coin) atomicMin(&found, i);
        __syncthreads();
        if (found < V) break;
        if (threadIdx.x == 0) carry += scan[255];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = min(found, V - 1);
}
