// Level 5: embedding in CUDA C, forward and backward, for T indices into a table of V rows and D columns:
//
//     y[t] = weight[index[t]],    dweight[i] = sum of dy[t] over the t with index[t] == i
//
// T is float, __half or __nv_bfloat16; sums are float. A pack is SIZE neighbouring values, loaded by one instruction.

#include "packs.cuh"

#include <assert.h>

constexpr int LOADS = 4;  // of a thread, on their way at once
constexpr int FEW = 1024;  // tokens, that each block compares with its own

// One block an index. Values are copied as the bits that they are.
template <typename T, int SIZE>
__global__ void embedding_gather(const long long* index, const T* weight, T* y, long long stride, long long V, int D)
{
    using Bits = typename BitsOf<SIZE * sizeof(T)>::type;
    const long long row = index[blockIdx.x];
    assert(0 <= row && row < V && "index");
    const Bits* from = (const Bits*)(weight + row * stride);
    Bits* to = (Bits*)(y + (long long)blockIdx.x * D);
    const int packs = D / SIZE, threads = blockDim.x;
    for (int start = threadIdx.x; start < packs; start += LOADS * threads) {
        Bits held[LOADS];  // stores between the loads would keep them in turn: they might write what is loaded next
#pragma unroll
        for (int l = 0; l < LOADS; ++l) {
            const int j = start + l * threads;
            if (j < packs) held[l] = from[j];
        }
#pragma unroll
        for (int l = 0; l < LOADS; ++l) {
            const int j = start + l * threads;
            if (j < packs) to[j] = held[l];
        }
    }
}

// One block an index, into sums of zeros. Where a row comes again, additions to it come in any order.
template <typename T>
__global__ void embedding_backward_atomic(const T* dy, const long long* index, float* sums, long long dy_stride,
                                          long long V, int D, long long padding)
{
    const long long row = index[blockIdx.x];
    assert(0 <= row && row < V && "index");
    if (row == padding) return;
    for (int j = threadIdx.x; j < D; j += blockDim.x)
        atomicAdd(sums + row * D + j, (float)dy[blockIdx.x * dy_stride + j]);
}

// Which tokens belong to a row of the table, as a chain in the order of the tokens: first[i] begins it, next[t] goes on, and -1
// ends it. A block of (32, at most WARPS) threads owns ROWS rows and reads all indices. Each warp makes chains of the tokens of
// its stretch, 32 at once: lanes with the same row find each other by __match_any_sync, and the last token of a row so far is
// kept in shared memory. Then the chains of a row are joined, warp after warp.
template <int ROWS, int WARPS>
__global__ void embedding_chains(const long long* index, int* first, int* next, int tokens, int stretch, long long V,
                                 long long padding)
{
    __shared__ int begin_of[WARPS][ROWS], last_of[WARPS][ROWS];
    int *begin = begin_of[threadIdx.y], *last = last_of[threadIdx.y];
    const int lane = threadIdx.x;
    const long long from = (long long)blockIdx.x * ROWS;
    for (int i = lane; i < ROWS; i += 32) begin[i] = last[i] = -1;
    __syncwarp();
    const int end = min((int)(threadIdx.y + 1) * stretch, tokens);
    for (int start = threadIdx.y * stretch; start < end; start += 32 * LOADS) {
        long long rows[LOADS];
#pragma unroll
        for (int l = 0; l < LOADS; ++l) {
            const int t = start + 32 * l + lane;
            rows[l] = t < end ? index[t] : -1;
            assert((t >= end || (0 <= rows[l] && rows[l] < V)) && "index");
        }
#pragma unroll
        for (int l = 0; l < LOADS; ++l) {
            const int t = start + 32 * l + lane;
            const bool mine = from <= rows[l] && rows[l] < from + ROWS && rows[l] != padding;
            if (!__any_sync(0xffffffff, mine)) continue;
            const int own = mine ? (int)(rows[l] - from) : -1;
            const unsigned alike = __match_any_sync(0xffffffff, own);
            const unsigned before = alike & ((1u << lane) - 1), after = alike >> lane >> 1;
            if (mine) {
                next[t] = after ? t + __ffs(after) : -1;
                const int previous = last[own];
                if (!before && previous < 0) begin[own] = t;
                if (!before && previous >= 0) next[previous] = t;
            }
            __syncwarp();  // the last tokens so far have been read
            if (mine && !after) last[own] = t;
            __syncwarp();
        }
    }
    __syncthreads();
    for (int i = threadIdx.y * 32 + lane; i < ROWS && from + i < V; i += 32 * blockDim.y) {
        int begins = -1, ends = -1;
        for (int warp = 0; warp < blockDim.y; ++warp) {
            const int more = begin_of[warp][i];
            if (more < 0) continue;
            if (ends < 0) begins = more;
            else next[ends] = more;
            ends = last_of[warp][i];
        }
        first[from + i] = begins;
    }
}

// A thread of a block of 256 clears a pack.
template <typename T, int SIZE>
__global__ void embedding_zeros(T* dweight, long long count)
{
    const long long at = (blockIdx.x * 256LL + threadIdx.x) * SIZE;
    if (at < count) store_floats(dweight + at, Floats<SIZE>{});
}

// Each thread adds up a pack of columns of a row along the row's chain, and writes it once. Block (i, part) has row i, also one
// without tokens: nothing need be zeroed before. With an index, block (t, part) has the row of token t if it begins with t, and
// rows without tokens are zeros before.
template <typename T, int SIZE>
__global__ void embedding_backward_collect(const T* dy, const long long* index, const int* first, const int* next, T* dweight,
                                           long long dy_stride, int D)
{
    const int j = (blockIdx.y * blockDim.x + threadIdx.x) * SIZE;
    const long long row = index ? index[blockIdx.x] : blockIdx.x;
    const int begin = first[row];
    if (j >= D || (index && begin != blockIdx.x)) return;
    Floats<SIZE> sum = {};
    for (int t = begin; t >= 0; t = next[t]) {
        const Floats<SIZE> come = load_floats<SIZE>(dy + t * dy_stride + j);
        for (int i = 0; i < SIZE; ++i) sum.at[i] += come.at[i];
    }
    store_floats(dweight + row * D + j, sum);
}

// Of at most FEW tokens, on rows that are zeros before, without chains: block (t, part) finds the tokens with the row of token t, a
// bit each, and if none comes before t, adds them up.
template <typename T, int SIZE>
__global__ void embedding_backward_few(const T* dy, const long long* index, T* dweight, long long dy_stride, int tokens,
                                       long long V, int D, long long padding)
{
    __shared__ unsigned alike[FEW / 32];
    const int own = blockIdx.x, j = (blockIdx.y * blockDim.x + threadIdx.x) * SIZE;
    const long long row = index[own];
    assert(0 <= row && row < V && "index");
    for (int t = threadIdx.x; t / 32 * 32 < tokens; t += blockDim.x) {
        const unsigned same = __ballot_sync(0xffffffff, t < tokens && index[t] == row);
        if (t % 32 == 0) alike[t / 32] = same;
    }
    __syncthreads();
    unsigned before = alike[own / 32] & ((1u << own % 32) - 1);
    for (int word = 0; word < own / 32; ++word) before |= alike[word];
    if (before || row == padding || j >= D) return;
    Floats<SIZE> sum = {};
    for (int word = own / 32; word * 32 < tokens; ++word) {
        for (unsigned rest = alike[word]; rest; rest &= rest - 1) {
            const long long t = word * 32 + __ffs(rest) - 1;
            const Floats<SIZE> come = load_floats<SIZE>(dy + t * dy_stride + j);
            for (int i = 0; i < SIZE; ++i) sum.at[i] += come.at[i];
        }
    }
    store_floats(dweight + row * D + j, sum);
}
