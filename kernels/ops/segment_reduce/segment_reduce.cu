// Level 5: sums of segments in CUDA C, forward and backward, for T rows of D columns in S segments. Rungs, plain to best:
//
//     segment_warp   a warp has a segment, from its first row to its last.
//     segment_parts  a warp has PART rows, whatever segments they are of; segment_join adds up what parts have of a segment that
//                    goes over their ends.
//
// T is float, __half or __nv_bfloat16; sums are float. A pack is SIZE neighbouring values, loaded by one instruction. `across`
// lanes, a power of two, have packs of a row side by side; where rows are narrow, the others of the warp have the next rows.

#include "packs.cuh"

#include <assert.h>

constexpr int WARPS = 4;  // of a block

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

// The segment, from `low` to `high` - 1, that row t is in: the last that begins at t or before it.
__device__ long long segment_of(const long long* offsets, long long low, long long high, long long t)
{
    while (high - low > 1) {
        const long long middle = (low + high) / 2;
        if (offsets[middle] <= t)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// Segments that lie within a part are written. Of one that began before, and of one that begins here and goes on behind the part,
// the sums so far are kept: partial[part][0] and partial[part][1].
template <typename T, int SIZE, int PART>
__global__ void segment_parts(const T* x, const long long* offsets, T* y, float* partial, long long x_stride, long long S,
                              long long rows, int D, int across, bool mean)
{
    const long long part = blockIdx.x * (long long)WARPS + threadIdx.x / 32, first = part * PART;
    if (first >= rows) return;  // whole warps
    const long long last = min(first + PART, rows);
    const Place at(across, SIZE);
    long long s = segment_of(offsets, 0, S, first);
    for (long long t = first; t < last; ++s) {
        check(offsets, s, S, rows);
        if (offsets[s] == offsets[s + 1]) s = segment_of(offsets, s, S, t);  // there may be many without rows
        const long long begin = offsets[s], end = offsets[s + 1], here = min(end, last);
        const Floats<SIZE> sum = sum_of_rows<SIZE>(x, x_stride, t, here, at, D);
        if (begin >= first && end <= last)
            store_sum(y + s * D, sum, end - begin, at, D, mean);
        else if (at.row == 0 && at.column < D)
            for (int i = 0; i < SIZE; ++i) partial[(part * 2 + (begin >= first)) * D + at.column + i] = sum.at[i];
        t = here;
    }
}

// The segments without rows, and those in several parts: what the first part has of it at its end, and the others at their beginning.
template <typename T, int PART>
__global__ void segment_join(const float* partial, const long long* offsets, T* y, long long S, long long rows, int D,
                             int across, bool mean)
{
    const long long s = blockIdx.x * (long long)WARPS + threadIdx.x / 32;
    if (s >= S) return;  // whole warps
    check(offsets, s, S, rows);
    const long long begin = offsets[s], end = offsets[s + 1], from = begin / PART, to = (end - 1) / PART;
    if (begin < end && from == to) return;
    const Place at(across, 1);
    Floats<1> sum = {};
    if (begin < end) {
        sum = sum_of_rows<1>(partial, 2LL * D, from + 1, to + 1, at, D);
        if (at.column < D) sum.at[0] += partial[(from * 2 + 1) * D + at.column];
    }
    store_sum(y + s * D, sum, end - begin, at, D, mean);
}

// Each row of a part gets the gradient of its segment, which it looks up among those of the part.
template <typename T, int SIZE, int PART>
__global__ void segment_backward(const T* dy, const long long* offsets, T* dx, long long dy_stride, long long S,
                                 long long rows, int D, int across, bool mean)
{
    const long long first = (blockIdx.x * (long long)WARPS + threadIdx.x / 32) * PART;
    if (first >= rows) return;
    const long long last = min(first + PART, rows);
    const Place at(across, SIZE);
    if (at.column >= D) return;
    const long long low = segment_of(offsets, 0, S, first), high = segment_of(offsets, low, S, last - 1) + 1;
    for (long long t = first + at.row; t < last; t += at.height) {
        const long long s = segment_of(offsets, low, high, t), many = offsets[s + 1] - offsets[s];
        check(offsets, s, S, rows);
        Floats<SIZE> come = load_floats<SIZE>(dy + s * dy_stride + at.column);
        for (int i = 0; mean && i < SIZE; ++i) come.at[i] /= (float)many;
        store_floats(dx + t * D + at.column, come);
    }
}
