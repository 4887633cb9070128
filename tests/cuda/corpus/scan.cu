// Prefix sums: within a block, over blocks in three launches, and in one pass.

#define NUM_BANKS 32
#define LOG_NUM_BANKS 5
#define CONFLICT_FREE_OFFSET(n) ((n) >> LOG_NUM_BANKS)

// Hillis and Steele, inclusive, double-buffered.
__global__ void scan_hillis_steele(const float *in, float *out, int n)
{
    extern __shared__ float temp[];  // 2 * blockDim.x
    int t = threadIdx.x, pout = 0, pin = 1;
    temp[t] = t < n ? in[blockIdx.x * n + t] : 0.f;
    __syncthreads();
    for (int offset = 1; offset < blockDim.x; offset <<= 1) {
        pout = 1 - pout; pin = 1 - pout;
        temp[pout * blockDim.x + t] = temp[pin * blockDim.x + t];
        if (t >= offset) temp[pout * blockDim.x + t] += temp[pin * blockDim.x + t - offset];
        __syncthreads();
    }
    if (t < n) out[blockIdx.x * n + t] = temp[pout * blockDim.x + t];
}

// Blelloch, exclusive, two elements a thread, padded against bank conflicts; leaves the block's total in sums.
__global__ void prescan(const int *g_in, int *g_out, int *sums, int total)
{
    extern __shared__ int tmp[];
    const int thid = threadIdx.x, n = 2 * blockDim.x, base = blockIdx.x * n;
    int ai = thid, bi = thid + n / 2;
    tmp[ai + CONFLICT_FREE_OFFSET(ai)] = base + ai < total ? g_in[base + ai] : 0;
    tmp[bi + CONFLICT_FREE_OFFSET(bi)] = base + bi < total ? g_in[base + bi] : 0;

    int offset = 1;
    for (int d = n >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (thid < d) {
            int a = offset * (2 * thid + 1) - 1, b = offset * (2 * thid + 2) - 1;
            a += CONFLICT_FREE_OFFSET(a);
            b += CONFLICT_FREE_OFFSET(b);
            tmp[b] += tmp[a];
        }
        offset *= 2;
    }
    if (thid == 0) {
        int last = n - 1 + CONFLICT_FREE_OFFSET(n - 1);
        if (sums) sums[blockIdx.x] = tmp[last];
        tmp[last] = 0;
    }
    for (int d = 1; d < n; d *= 2) {
        offset >>= 1;
        __syncthreads();
        if (thid < d) {
            int a = offset * (2 * thid + 1) - 1, b = offset * (2 * thid + 2) - 1;
            a += CONFLICT_FREE_OFFSET(a);
            b += CONFLICT_FREE_OFFSET(b);
            int t = tmp[a];
            tmp[a] = tmp[b];
            tmp[b] += t;
        }
    }
    __syncthreads();
    if (base + ai < total) g_out[base + ai] = tmp[ai + CONFLICT_FREE_OFFSET(ai)];
    if (base + bi < total) g_out[base + bi] = tmp[bi + CONFLICT_FREE_OFFSET(bi)];
}

__global__ void uniform_add(int *data, const int *sums, int total)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) data[i] += sums[blockIdx.x];
}

// One pass with decoupled look-back: a block takes a ticket, publishes its sum, and looks back until it meets a prefix.
enum class TileState : unsigned { kEmpty = 0, kAggregate = 1, kPrefix = 2 };

template <int THREADS>
__global__ void scan_lookback(const unsigned* in, unsigned* out, unsigned long long* tiles, unsigned* ticket, int n)
{
    __shared__ unsigned tile, before, warp_sums[THREADS / 32];
    if (threadIdx.x == 0) tile = atomicAdd(ticket, 1u);
    __syncthreads();

    const int i = tile * THREADS + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const unsigned mine = i < n ? in[i] : 0u;
    unsigned sum = mine;
    #pragma unroll
    for (int d = 1; d < 32; d *= 2) {
        const unsigned left = __shfl_up_sync(~0u, sum, d);
        if (lane >= d) sum += left;
    }
    if (lane == 31) warp_sums[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        unsigned s = lane < THREADS / 32 ? warp_sums[lane] : 0u;
        for (int d = 1; d < THREADS / 32; d *= 2) {
            const unsigned left = __shfl_up_sync(~0u, s, d);
            if (lane >= d) s += left;
        }
        if (lane < THREADS / 32) warp_sums[lane] = s;
    }
    __syncthreads();
    const unsigned total = warp_sums[THREADS / 32 - 1];
    if (warp > 0) sum += warp_sums[warp - 1];

    if (threadIdx.x == 0) {
        auto pack = [](TileState state, unsigned value) { return ((unsigned long long)state << 32) | value; };
        unsigned prefix = 0;
        if (tile > 0) {
            atomicExch(&tiles[tile], pack(TileState::kAggregate, total));
            for (int look = (int)tile - 1;;) {
                const unsigned long long seen = atomicAdd(&tiles[look], 0ull);
                const auto state = TileState(seen >> 32);
                if (state == TileState::kEmpty) continue;
                prefix += (unsigned)seen;
                if (state == TileState::kPrefix) break;
                --look;
            }
        }
        atomicExch(&tiles[tile], pack(TileState::kPrefix, prefix + total));
        before = prefix;
    }
    __syncthreads();
    if (i < n) out[i] = before + sum;
}
