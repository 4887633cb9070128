// Level 5: sums of segments in CUDA C, forward and backward, for T rows of D columns in S segments. Rungs, plain to best:
//
//     segment_warp   a warp has a segment, from its first row to its last.
//     segment_block  a block has a segment: of few rows, however they are divided, none is long.
//     segment_parts  a warp has `part` items, which are rows and ends of segments: many segments without rows are divided, too;
//                    segment_join adds up what parts have of a segment that goes over their ends.
//
// T is float, __half or __nv_bfloat16; sums are float. A pack is SIZE neighbouring values, loaded by one instruction. `across`
// lanes, a power of two, have packs of a row side by side; where rows are narrow, the others of the warp have the next rows.

#include "packs.cuh"

#include <assert.h>

constexpr int WARPS = 4;  // of a block
constexpr int FAN = 8;  // a step of a search divides what is left by it: loads on their way at once
constexpr int FLYING = 4;  // rows on their way at once in the backward and to a block

// Where a lane is: in column `column`, at row `row` of those that a warp reads at once.
struct Place {
    int column, row, height;

    __device__ Place(int across, int size)
    {
        const int lane = threadIdx.x % 32;
        column = (blockIdx.y * across + lane % across) * size;
        row = lane / across;
        height = 32 / across;
    }
};

// The sum of the rows from `begin` to `end` - 1 of a lane's columns, given to every lane that has them.
template <int SIZE, typename T>
__device__ Floats<SIZE> sum_of_rows(const T* x, long long stride, long long begin, long long end, Place at, int D)
{
    Floats<SIZE> sum = {};
    if (at.column < D) {
        for (long long t = begin + at.row; t < end; t += at.height) {
            const Floats<SIZE> come = load_floats<SIZE>(x + t * stride + at.column);
            for (int i = 0; i < SIZE; ++i) sum.at[i] += come.at[i];
        }
    }
    for (int apart = 32 / at.height; apart < 32; apart *= 2)
        for (int i = 0; i < SIZE; ++i) sum.at[i] += __shfl_xor_sync(0xffffffff, sum.at[i], apart);
    return sum;
}

// One lane for each pack stores it; of a mean, divided by so many rows.
template <int SIZE, typename T>
__device__ void store_sum(T* y, Floats<SIZE> sum, long long rows, Place at, int D, bool mean)
{
    if (at.row > 0 || at.column >= D) return;
    for (int i = 0; mean && rows > 1 && i < SIZE; ++i) sum.at[i] /= (float)rows;
    store_floats(y + at.column, sum);
}

__device__ void check(const long long* offsets, long long s, long long S, long long rows)
{
    assert(0 <= offsets[s] && offsets[s] <= offsets[s + 1] && offsets[s + 1] <= rows && "offsets");
    assert((s > 0 || offsets[0] == 0) && (s + 1 < S || offsets[S] == rows) && "offsets");
}

template <typename T, int SIZE>
__global__ void segment_warp(const T* x, const long long* offsets, T* y, long long x_stride, long long S, long long rows,
                             int D, int across, bool mean)
{
    const long long s = blockIdx.x * (long long)WARPS + threadIdx.x / 32;
    if (s >= S) return;  // whole warps
    check(offsets, s, S, rows);
    const Place at(across, SIZE);
    const Floats<SIZE> sum = sum_of_rows<SIZE>(x, x_stride, offsets[s], offsets[s + 1], at, D);
    store_sum(y + s * D, sum, offsets[s + 1] - offsets[s], at, D, mean);
}

// The grid: segments, and stripes of columns. A block is whole warps, at most 32.
template <typename T, int SIZE>
__global__ void segment_block(const T* x, const long long* offsets, T* y, long long x_stride, long long S, long long rows,
                              int D, int across, bool mean)
{
    __shared__ Floats<SIZE> of_warps[32][32];
    const long long s = blockIdx.x;
    check(offsets, s, S, rows);
    const long long begin = offsets[s], end = offsets[s + 1];
    const Place at(across, SIZE);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32, apart = warps * at.height;
    Floats<SIZE> sum = {};
    for (long long first = begin + warp * at.height + at.row; first < end; first += FLYING * apart) {
        Pack<T, SIZE> come[FLYING];
        auto present = [&](int k) { return first + k * apart < end && at.column < D; };
        for (int k = 0; k < FLYING; ++k)
            if (present(k)) come[k] = load_pack<SIZE>(x + (first + k * apart) * x_stride + at.column);
        for (int k = 0; k < FLYING; ++k) {
            if (!present(k)) continue;
            const Floats<SIZE> values = widened(come[k]);
            for (int i = 0; i < SIZE; ++i) sum.at[i] += values.at[i];
        }
    }
    of_warps[warp][lane] = sum;
    __syncthreads();
    if (warp > 0) return;
    for (int w = 1; w < warps; ++w)
        for (int i = 0; i < SIZE; ++i) sum.at[i] += of_warps[w][lane].at[i];
    for (int lanes = across; lanes < 32; lanes *= 2)
        for (int i = 0; i < SIZE; ++i) sum.at[i] += __shfl_xor_sync(0xffffffff, sum.at[i], lanes);
    store_sum(y + s * D, sum, end - begin, at, D, mean);
}

// The last i below `limit` with offsets[i] + lean * i <= at, each lane for its own `at`, which is at least 0.
__device__ long long last_up_to(const long long* offsets, long long limit, long long at, int lean)
{
    long long low = 0;
    for (long long span = limit; span > 1;) {
        const long long apart = (span + FAN - 1) / FAN;
        int below = 0;
#pragma unroll
        for (int k = 1; k < FAN; ++k) {
            const long long i = low + k * apart, offset = offsets[min(i, limit - 1)];
            below += i < limit & offset + lean * i <= at;
        }
        low += below * apart;
        span = apart;
    }
    return low;
}

// Rows and ends of segments in one sequence: row t of segment s is item t + s, its end is item offsets[s + 1] + s. The
// part that has a segment's end writes it, and if it began in another part, says so in joined[part], which is else -1. Then
// partial[part][0] is kept of the segment that ends here; partial[part][1] always is, of the one that goes on behind it.
template <typename T, int SIZE>
__global__ void segment_parts(const T* x, const long long* offsets, T* y, float* partial, long long* joined,
                              long long x_stride, long long S, long long rows, int D, int across, bool mean, int part)
{
    const long long p = blockIdx.x * (long long)WARPS + threadIdx.x / 32, from = p * part, to = min(from + part, rows + S);
    if (from >= to) return;  // whole warps
    const long long found = last_up_to(offsets, S + 1, threadIdx.x % 2 ? to : from, 1);
    const long long last = __shfl_sync(0xffffffff, found, 1);
    long long s = __shfl_sync(0xffffffff, found, 0), t = from - s;
    const Place at(across, SIZE);
    const bool began_before = s < last && offsets[s] < t;
    if (blockIdx.y == 0 && threadIdx.x % 32 == 0) joined[p] = began_before ? s : -1;
    for (; s < S && s <= last; ++s) {
        check(offsets, s, S, rows);
        const long long end = s < last ? offsets[s + 1] : to - last;
        const Floats<SIZE> sum = sum_of_rows<SIZE>(x, x_stride, t, end, at, D);
        if (s < last && offsets[s] >= t)
            store_sum(y + s * D, sum, end - t, at, D, mean);
        else if (at.row == 0 && at.column < D)
            for (int i = 0; i < SIZE; ++i) partial[(p * 2 + (s == last)) * D + at.column + i] = sum.at[i];
        t = end;
    }
}

// The segments that end in another part than they began in: what the parts before have of it, and what its last part has.
template <typename T>
__global__ void segment_join(const float* partial, const long long* joined, const long long* offsets, T* y, long long parts,
                             int D, int across, bool mean, int part)
{
    const long long p = blockIdx.x * (long long)WARPS + threadIdx.x / 32;
    if (p >= parts || joined[p] < 0) return;  // whole warps
    const long long s = joined[p];
    const Place at(across, 1);
    Floats<1> sum = sum_of_rows<1>(partial + D, 2LL * D, (offsets[s] + s) / part, p, at, D);
    if (at.column < D) sum.at[0] += partial[p * 2 * D + at.column];
    store_sum(y + s * D, sum, offsets[s + 1] - offsets[s], at, D, mean);
}

// A warp has `part` rows, at most 32. Each lane looks up the segment of one of them, whose gradient the row then gets.
template <typename T, int SIZE>
__global__ void segment_backward(const T* dy, const long long* offsets, T* dx, long long dy_stride, long long S,
                                 long long rows, int D, int across, bool mean, int part)
{
    const int lane = threadIdx.x % 32;
    const long long first = (blockIdx.x * (long long)WARPS + threadIdx.x / 32) * part;
    if (first >= rows) return;  // whole warps
    const int many = (int)min((long long)part, rows - first);
    const long long own = last_up_to(offsets, S, first + min(lane, many - 1), 0);
    check(offsets, own, S, rows);
    const float divisor = mean ? (float)(offsets[own + 1] - offsets[own]) : 1.0f;
    const Place at(across, SIZE);
    for (int start = 0; start < many; start += FLYING * at.height) {
        Floats<SIZE> come[FLYING];
        for (int k = 0; k < FLYING; ++k) {
            const int row = start + k * at.height + at.row;
            const long long s = __shfl_sync(0xffffffff, own, row % 32);
            const float by = __shfl_sync(0xffffffff, divisor, row % 32);
            if (row >= many || at.column >= D) continue;
            come[k] = load_floats<SIZE>(dy + s * dy_stride + at.column);
            for (int i = 0; mean && i < SIZE; ++i) come[k].at[i] /= by;
        }
        for (int k = 0; k < FLYING; ++k) {
            const int row = start + k * at.height + at.row;
            if (row < many && at.column < D) store_floats(dx + (first + row) * D + at.column, come[k]);
        }
    }
}
