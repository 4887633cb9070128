// Level 5: the cumulative sum along rows in CUDA C, from the left or, for the gradient, from the right.
//
// T is float, __half or __nv_bfloat16. A thread adds up its own few values as floats; what goes beyond it is double, since a long
// chain of float sums would lose the last three bits. Columns are counted from where the scan begins. A pack is SIZE of them,
// loaded by one instruction. Block (row, part) has `width` columns of a row, a multiple of what its threads take at once.

#include "packs.cuh"

// The pack at column j, as it lies in memory.
template <int SIZE, bool REVERSED, typename T>
__device__ Pack<T, SIZE> load_columns(const T* row, int j, int N)
{
    return load_pack<SIZE>(row + (REVERSED ? N - SIZE - j : j));
}

// Values of a pack from the order in memory to that of the scan, or back.
template <bool REVERSED, int SIZE>
__device__ Floats<SIZE> in_order(Floats<SIZE> values)
{
    if constexpr (!REVERSED) return values;
    Floats<SIZE> backwards;
    for (int i = 0; i < SIZE; ++i) backwards.at[i] = values.at[SIZE - 1 - i];
    return backwards;
}

template <bool REVERSED, int SIZE, typename T>
__device__ void store_columns(T* row, int j, int N, Floats<SIZE> values)
{
    store_floats(row + (REVERSED ? N - SIZE - j : j), in_order<REVERSED>(values));
}

// The sum of `value` over this lane and those below it.
__device__ double warp_scan(double value)
{
    for (int apart = 1; apart < 32; apart *= 2) {
        const double other = __shfl_up_sync(0xffffffff, value, apart);
        if (threadIdx.x % 32 >= apart) value += other;
    }
    return value;
}

// The sum of `value` over the block, given to each thread.
__device__ double block_sum(double value, double* warp_parts)
{
    for (int apart = 16; apart > 0; apart /= 2) value += __shfl_xor_sync(0xffffffff, value, apart);
    if (threadIdx.x % 32 == 0) warp_parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0.0;
    for (int warp = 0; warp < blockDim.x / 32; ++warp) value += warp_parts[warp];
    return value;
}

// sums[row][part], of every part but the last.
template <typename T, int SIZE, bool REVERSED>
__global__ void scan_sums(const T* x, double* sums, long long x_stride, int N, int width)
{
    __shared__ double warp_parts[32];
    const int first = blockIdx.y * width;
    x += blockIdx.x * x_stride;
    double sum = 0.0;
    for (int j = first + threadIdx.x * SIZE; j < first + width; j += blockDim.x * SIZE) {
        const Pack<T, SIZE> pack = load_columns<SIZE, REVERSED>(x, j, N);
        const Floats<SIZE> values = in_order<REVERSED>(widened(pack));
        for (int i = 0; i < SIZE; ++i) sum += values.at[i];
    }
    sum = block_sum(sum, warp_parts);
    if (threadIdx.x == 0) sums[blockIdx.x * gridDim.y + blockIdx.y] = sum;
}

// A thread adds up its pack, a warp its threads, the block its warps; the block's sum goes on to its next columns, which are on
// their way by then. `sums`, which scan_sums made, may be null where there is one part.
template <typename T, int SIZE, bool REVERSED>
__global__ void scan_rows(const T* x, T* y, const double* sums, long long x_stride, int N, int width)
{
    __shared__ double warp_parts[2][32], carry_parts[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const int first = blockIdx.y * width, end = min(first + width, N);
    x += blockIdx.x * x_stride;
    y += (long long)blockIdx.x * N;
    int j = first + threadIdx.x * SIZE;
    Pack<T, SIZE> next = {};
    if (j < end) next = load_columns<SIZE, REVERSED>(x, j, N);
    double carry = 0.0;
    if (sums) {
        const double* part_sums = sums + blockIdx.x * (gridDim.y - 1);
        for (int part = threadIdx.x; part < blockIdx.y; part += blockDim.x) carry += part_sums[part];
        carry = block_sum(carry, carry_parts);
    }
    int turn = 0;  // two sets of sums by turns: no barrier between reading the one and writing the other
    for (int start = first; start < end; start += blockDim.x * SIZE, j += blockDim.x * SIZE, turn ^= 1) {
        const Pack<T, SIZE> pack = next;
        next = {};
        if (j + (int)blockDim.x * SIZE < end) next = load_columns<SIZE, REVERSED>(x, j + blockDim.x * SIZE, N);
        Floats<SIZE> values = in_order<REVERSED>(widened(pack));
        for (int i = 1; i < SIZE; ++i) values.at[i] += values.at[i - 1];

        const double up_to = warp_scan(values.at[SIZE - 1]);
        double before = __shfl_up_sync(0xffffffff, up_to, 1);
        if (lane == 0) before = 0.0;  // up_to less its own would be NaN behind an infinity
        if (lane == 31) warp_parts[turn][warp] = up_to;
        __syncthreads();
        const double sums_to_warp = warp_scan(lane < warps ? warp_parts[turn][lane] : 0.0);
        const double earlier_warps = __shfl_sync(0xffffffff, sums_to_warp, max(warp - 1, 0));
        before += carry + (warp > 0 ? earlier_warps : 0.0);
        carry += __shfl_sync(0xffffffff, sums_to_warp, 31);

        for (int i = 0; i < SIZE; ++i) values.at[i] = (float)(before + values.at[i]);
        if (j < end) store_columns<REVERSED>(y, j, N, values);
    }
}

// Many narrow rows: a warp for each, with at most PACKS packs a lane, all of them on their way at once.
template <typename T, int SIZE, bool REVERSED, int PACKS>
__global__ void scan_narrow(const T* x, T* y, long long x_stride, long long M, int N)
{
    const long long row = (long long)blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= M) return;
    x += row * x_stride;
    y += row * N;
    const int lane = threadIdx.x;
    Pack<T, SIZE> packs[PACKS] = {};
#pragma unroll
    for (int p = 0; p < PACKS; ++p)
        if ((p * 32 + lane) * SIZE < N) packs[p] = load_columns<SIZE, REVERSED>(x, (p * 32 + lane) * SIZE, N);
    double carry = 0.0;
#pragma unroll
    for (int p = 0; p < PACKS; ++p) {
        Floats<SIZE> values = in_order<REVERSED>(widened(packs[p]));
        for (int i = 1; i < SIZE; ++i) values.at[i] += values.at[i - 1];
        const double up_to = warp_scan(values.at[SIZE - 1]);
        double before = __shfl_up_sync(0xffffffff, up_to, 1);
        before = carry + (lane > 0 ? before : 0.0);
        carry += __shfl_sync(0xffffffff, up_to, 31);

        for (int i = 0; i < SIZE; ++i) values.at[i] = (float)(before + values.at[i]);
        if ((p * 32 + lane) * SIZE < N) store_columns<REVERSED>(y, (p * 32 + lane) * SIZE, N, values);
    }
}
