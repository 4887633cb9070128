// Level 5: sums, means and largest values by 16-byte loads, several of a thread on their way at once, of rows or of columns of
// an M×N matrix. Where there are few rows, or few columns, several blocks share them: gridDim.y blocks know a part each, and
// reduction_joined joins the parts, gridDim.y × results, always in the same order. T is float, __half or __nv_bfloat16.

#include "cut.cuh"
#include "known.cuh"
#include "packs.cuh"

constexpr int THREADS = 256;  // of a block, in whatever form

// What a block knows of a result: the result itself, if no other block has a part of it.
template <bool MAX, typename T>
__device__ void put(Known known, T* y, long long* index, Known* parts, long long results, long long to, float scale)
{
    if (parts)
        parts[blockIdx.y * results + to] = known;
    else
        give<MAX>(known, y, index, to, scale);
}

// (threads of a row, rows) threads, each number a power of two. What is before and behind a row's whole vectors is of part 0.
template <typename T, bool MAX, int LOADS>
__global__ void __launch_bounds__(THREADS) reduction_rows(const T* x, T* y, long long* index, Known* parts, long long x_stride,
                                                          long long M, int N, float scale)
{
    __shared__ Known warp_parts[THREADS / 32];
    constexpr int SIZE = Vector<T>::SIZE;
    const long long row = (long long)blockIdx.x * blockDim.y + threadIdx.y;
    const int step = gridDim.y * blockDim.x, warp = (threadIdx.y * blockDim.x + threadIdx.x) / 32;
    x += row * x_stride;
    const Cut<T> cut(x, row < M ? N : 0);
    Known known = nothing<MAX>();
    if (blockIdx.y == 0)
        for (int k = threadIdx.x; k < cut.lead; k += blockDim.x) take<MAX>(known, (float)x[k], k);
    for (int v = blockIdx.y * blockDim.x + threadIdx.x; v < cut.vectors; v += LOADS * step) {
        Vector<T> xs[LOADS];
#pragma unroll
        for (int l = 0; l < LOADS; ++l)
            if (v + l * step < cut.vectors) xs[l] = load(x + cut.lead + (v + l * step) * SIZE);
#pragma unroll
        for (int l = 0; l < LOADS; ++l) {
            if (v + l * step >= cut.vectors) continue;
            const int k = cut.lead + (v + l * step) * SIZE;
#pragma unroll
            for (int p = 0; p < SIZE / 2; ++p) {
                const float2 pair = to_float2(xs[l].at[p]);
                take<MAX>(known, pair.x, k + 2 * p);
                take<MAX>(known, pair.y, k + 2 * p + 1);
            }
        }
    }
    if (blockIdx.y == 0 && row < M)
        for (int k = cut.rest + threadIdx.x; k < N; k += blockDim.x) take<MAX>(known, (float)x[k], k);

    for (int apart = min((int)blockDim.x, 32) / 2; apart > 0; apart /= 2)
        known = both<MAX>(known, {__shfl_xor_sync(0xffffffff, known.value, apart),
                                  __shfl_xor_sync(0xffffffff, known.at, apart)});
    if (blockDim.x > 32) {
        if (threadIdx.x % 32 == 0) warp_parts[warp] = known;
        __syncthreads();
        if (threadIdx.x == 0)
            for (int other = 1; other < blockDim.x / 32; ++other) known = both<MAX>(known, warp_parts[warp + other]);
    }
    if (threadIdx.x == 0 && row < M) put<MAX>(known, y, index, parts, M, row, scale);
}

// (threads across, threads down) threads; a thread has SIZE neighbouring columns, and LOADS of its rows on their way at once.
template <typename T, bool MAX, int SIZE, int LOADS>
__global__ void __launch_bounds__(THREADS) reduction_columns(const T* x, T* y, long long* index, Known* parts,
                                                             long long x_stride, int M, int N, float scale)
{
    __shared__ Known thread_parts[THREADS * SIZE];
    const int width = blockDim.x * SIZE, thread = threadIdx.y * blockDim.x + threadIdx.x, step = gridDim.y * blockDim.y;
    const int left = blockIdx.x * width, column = left + threadIdx.x * SIZE;
    Known known[SIZE];
    for (int i = 0; i < SIZE; ++i) known[i] = nothing<MAX>();
    x += column;
    for (int k = blockIdx.y * blockDim.y + threadIdx.y; k < M && column < N; k += LOADS * step) {
        Pack<T, SIZE> xs[LOADS];
#pragma unroll
        for (int l = 0; l < LOADS; ++l)
            if (k + l * step < M) xs[l] = load_pack<SIZE>(x + (k + l * step) * x_stride);
#pragma unroll
        for (int l = 0; l < LOADS; ++l) {
            if (k + l * step >= M) continue;
            const Floats<SIZE> wide = widened(xs[l]);
#pragma unroll
            for (int i = 0; i < SIZE; ++i) take<MAX>(known[i], wide.at[i], k + l * step);
        }
    }
    for (int i = 0; i < SIZE; ++i) thread_parts[thread * SIZE + i] = known[i];
    __syncthreads();
    for (int at = thread; at < width && left + at < N; at += blockDim.x * blockDim.y) {
        Known whole = thread_parts[at];
        for (int other = 1; other < blockDim.y; ++other) whole = both<MAX>(whole, thread_parts[other * width + at]);
        put<MAX>(whole, y, index, parts, N, left + at, scale);
    }
}

// (32, 32) threads for every 32 results: a row of threads reads a part of neighbouring results, and a warp joins those of one.
template <typename T, bool MAX>
__global__ void reduction_joined(const Known* parts, T* y, long long* index, int results, int count, float scale)
{
    __shared__ Known thread_parts[32][33];  // 33: a column of 32 lies in as many banks as a row
    int to = blockIdx.x * 32 + threadIdx.x;
    Known known = nothing<MAX>();
    if (to < results)
        for (int part = threadIdx.y; part < count; part += 32)
            known = both<MAX>(known, parts[(long long)part * results + to]);
    thread_parts[threadIdx.y][threadIdx.x] = known;
    __syncthreads();
    known = thread_parts[threadIdx.x][threadIdx.y];
    for (int apart = 16; apart > 0; apart /= 2)
        known = both<MAX>(known, {__shfl_xor_sync(0xffffffff, known.value, apart),
                                  __shfl_xor_sync(0xffffffff, known.at, apart)});
    to = blockIdx.x * 32 + threadIdx.y;
    if (threadIdx.x == 0 && to < results) give<MAX>(known, y, index, to, scale);
}
