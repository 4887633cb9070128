// Level 5: the cumulative sum along rows in CUDA C, from the left or, for the gradient, from the right.
//
// T is float, __half or __nv_bfloat16. A thread adds up its own few values as floats; what goes beyond it is double, since a long
// chain of float sums would lose the last three bits. Columns are counted from where the scan begins. A pack is SIZE of them,
// loaded by one instruction. Block (row, part) has `width` columns of a row, a multiple of what its threads take at once.

#include "packs.cuh"

// The pack at column j, in the order of the scan.
template <int SIZE, bool REVERSED, typename T>
__device__ Floats<SIZE> load_columns(const T* row, int j, int N)
{
    if constexpr (!REVERSED) return load_floats<SIZE>(row + j);
    const Floats<SIZE> backwards = load_floats<SIZE>(row + N - SIZE - j);
    Floats<SIZE> values;
    for (int i = 0; i < SIZE; ++i) values.at[i] = backwards.at[SIZE - 1 - i];
    return values;
}

template <int SIZE, bool REVERSED, typename T>
__device__ void store_columns(T* row, int j, int N, Floats<SIZE> values)
{
    if constexpr (!REVERSED) return store_floats(row + j, values);
    Floats<SIZE> backwards;
    for (int i = 0; i < SIZE; ++i) backwards.at[SIZE - 1 - i] = values.at[i];
    store_floats(row + N - SIZE - j, backwards);
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
        const Floats<SIZE> values = load_columns<SIZE, REVERSED>(x, j, N);
        for (int i = 0; i < SIZE; ++i) sum += values.at[i];
    }
    sum = block_sum(sum, warp_parts);
    if (threadIdx.x == 0) sums[blockIdx.x * gridDim.y + blockIdx.y] = sum;
}

// A thread adds up its pack, a warp its threads, the block its warps; the block's sum goes on to its next columns. `sums`, which
// scan_sums made, may be null where there is one part.
template <typename T, int SIZE, bool REVERSED>
__global__ void scan_rows(const T* x, T* y, const double* sums, long long x_stride, int N, int width)
{
    __shared__ double warp_parts[2][32], carry_parts[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    const int first = blockIdx.y * width, end = min(first + width, N);
    x += blockIdx.x * x_stride;
    y += (long long)blockIdx.x * N;
    double carry = 0.0;
    if (sums) {
        const double* part_sums = sums + blockIdx.x * (gridDim.y - 1);
        for (int part = threadIdx.x; part < blockIdx.y; part += blockDim.x) carry += part_sums[part];
        carry = block_sum(carry, carry_parts);
    }
    int turn = 0;  // two sets of sums by turns: no barrier between reading the one and writing the other
    for (int start = first; start < end; start += blockDim.x * SIZE, turn ^= 1) {
        const int j = start + threadIdx.x * SIZE;
        Floats<SIZE> values = {};
        if (j < end) values = load_columns<SIZE, REVERSED>(x, j, N);
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
        if (j < end) store_columns<SIZE, REVERSED>(y, j, N, values);
    }
}
