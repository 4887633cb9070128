// Level 5: embedding in CUDA C, forward and backward, for T indices into a table of V rows and D columns:
//
//     y[t] = weight[index[t]],    dweight[i] = sum of dy[t] over the t with index[t] == i
//
// T is float, __half or __nv_bfloat16; sums are float. A pack is SIZE neighbouring values, loaded by one instruction.

#include "packs.cuh"

#include <assert.h>

// One block an index. Values are copied as the bits that they are.
template <typename T, int SIZE>
__global__ void embedding_gather(const long long* index, const T* weight, T* y, long long stride, long long V, int D)
{
    using Bits = typename BitsOf<SIZE * sizeof(T)>::type;
    const long long row = index[blockIdx.x];
    assert(0 <= row && row < V && "index");
    const Bits* from = (const Bits*)(weight + row * stride);
    Bits* to = (Bits*)(y + (long long)blockIdx.x * D);
    for (int j = threadIdx.x; j < D / SIZE; j += blockDim.x) to[j] = from[j];
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
// ends it. One warp owns ROWS rows and reads all indices, 32 at once: lanes with the same row find each other by
// __match_any_sync, and the last token of a row so far is kept in shared memory.
template <int ROWS>
__global__ void embedding_chains(const long long* index, int* first, int* next, int tokens, long long V,
                                 long long padding)
{
    __shared__ int begin[ROWS], last[ROWS];
    const int lane = threadIdx.x;
    const long long from = (long long)blockIdx.x * ROWS;
    for (int i = lane; i < ROWS; i += 32) begin[i] = last[i] = -1;
    __syncwarp();
    for (int start = 0; start < tokens; start += 32) {
        const int t = start + lane;
        const long long row = t < tokens ? index[t] : -1;
        assert((t >= tokens || (0 <= row && row < V)) && "index");
        const bool mine = from <= row && row < from + ROWS && row != padding;
        if (!__any_sync(0xffffffff, mine)) continue;
        const int own = mine ? (int)(row - from) : -1;
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
    for (int i = lane; i < ROWS && from + i < V; i += 32) first[from + i] = begin[i];
}

// Block (i, part): each thread adds up a pack of columns of row i along the row's chain, and writes it once. A row without tokens
// is written too: nothing need be zeroed before.
template <typename T, int SIZE>
__global__ void embedding_backward_collect(const T* dy, const int* first, const int* next, T* dweight,
                                           long long dy_stride, int D)
{
    const int j = (blockIdx.y * blockDim.x + threadIdx.x) * SIZE;
    if (j >= D) return;
    Floats<SIZE> sum = {};
    for (int t = first[blockIdx.x]; t >= 0; t = next[t]) {
        const Floats<SIZE> come = load_floats<SIZE>(dy + t * dy_stride + j);
        for (int i = 0; i < SIZE; ++i) sum.at[i] += come.at[i];
    }
    store_floats(dweight + (long long)blockIdx.x * D + j, sum);
}
