// Sorting: networks, transposition, a radix pass, a merge.

// One step of a bitonic sort over global memory: the host loops over k and j.
__global__ void bitonic_sort_step(float *dev_values, int j, int k)
{
    unsigned int i = threadIdx.x + blockDim.x * blockIdx.x;
    unsigned int ixj = i ^ j;
    if (ixj > i) {
        if ((i & k) == 0 && dev_values[i] > dev_values[ixj]) {
            float temp = dev_values[i];
            dev_values[i] = dev_values[ixj];
            dev_values[ixj] = temp;
        }
        if ((i & k) != 0 && dev_values[i] < dev_values[ixj]) {
            float temp = dev_values[i];
            dev_values[i] = dev_values[ixj];
            dev_values[ixj] = temp;
        }
    }
}

// Keys with values, a whole array a block; sizes short of a power of two are filled up with the largest key.
template <int SIZE, class Key, class Value, bool DESCENDING = false>
__global__ void bitonic_pairs(Key* keys, Value* values, int n, Key filler)
{
    struct Pair { Key key; Value value; };
    __shared__ Pair s[SIZE];
    for (int i = threadIdx.x; i < SIZE; i += blockDim.x)
        s[i] = i < n ? Pair{keys[blockIdx.x * n + i], values[blockIdx.x * n + i]} : Pair{filler, Value(-1)};
    for (int size = 2; size <= SIZE; size <<= 1)
        for (int stride = size >> 1; stride > 0; stride >>= 1) {
            __syncthreads();
            for (int t = threadIdx.x; t < SIZE / 2; t += blockDim.x) {
                const int lo = 2 * t - (t & (stride - 1)), hi = lo + stride;
                const bool up = ((lo & size) == 0) != DESCENDING;
                if ((s[lo].key > s[hi].key) == up) {
                    const Pair p = s[lo];
                    s[lo] = s[hi];
                    s[hi] = p;
                }
            }
        }
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        keys[blockIdx.x * n + i] = s[i].key;
        values[blockIdx.x * n + i] = s[i].value;
    }
}

__device__ void swap(int &a, int &b) { int t = a; a = b; b = t; }

// Odd-even transposition in one block, until a pass changes nothing.
__global__ void odd_even(int *data, int n)
{
    extern __shared__ int v[];
    __shared__ int changed;
    for (int i = threadIdx.x; i < n; i += blockDim.x) v[i] = data[i];
    do {
        __syncthreads();
        if (threadIdx.x == 0) changed = 0;
        __syncthreads();
        for (int phase = 0; phase < 2; ++phase) {
            for (int i = 2 * threadIdx.x + phase; i + 1 < n; i += 2 * blockDim.x)
                if (v[i] > v[i + 1]) { swap(v[i], v[i + 1]); changed = 1; }
            __syncthreads();
        }
    } while (changed);
    for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] = v[i];
}

// Least significant digit radix sort of one block's keys, one bit a pass, ranks from ballots.
__global__ void radix_sort_block(unsigned* keys, int n)
{
    __shared__ unsigned a[512];
    __shared__ int zeros_of_warp[16];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    unsigned key = t < n ? keys[t] : 0xffffffffu;
    for (int bit = 0; bit < 32; ++bit) {
        const bool zero = !(key >> bit & 1);
        const unsigned votes = __ballot_sync(0xffffffff, zero);
        if (lane == 0) zeros_of_warp[warp] = __popc(votes);
        __syncthreads();
        int zeros_before = 0, zeros = 0;
        for (int w = 0; w < 16; ++w) {
            if (w < warp) zeros_before += zeros_of_warp[w];
            zeros += zeros_of_warp[w];
        }
        zeros_before += __popc(votes & ((1u << lane) - 1u));
        a[zero ? zeros_before : zeros + t - zeros_before] = key;
        __syncthreads();
        key = a[t];
    }
    if (t < n) keys[t] = key;
}

// Two sorted arrays into one: each element finds its rank in the other. Equal elements of a go first.
template <class Before>
__device__ int partition_point(const float* v, int n, Before before)
{
    int lo = 0;
    while (lo < n) {
        int mid = (lo + n) / 2;
        if (before(v[mid])) lo = mid + 1; else n = mid;
    }
    return lo;
}

__global__ void merge_by_rank(const float* a, int na, const float* b, int nb, float* out)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < na) out[i + partition_point(b, nb, [&](float v) { return v < a[i]; })] = a[i];
    else if (i < na + nb) {
        const float mine = b[i - na];
        out[i - na + partition_point(a, na, [mine](float v) { return v <= mine; })] = mine;
    }
}
