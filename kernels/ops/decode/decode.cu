// Level 5: y = sum_j exp(s_j - lse) v_j with s_j = scale · q · k_j, for a query of each sequence and head, in CUDA C.
// Rungs, plain to best:
//
//     decode_warp    a warp has a query, and goes over all of its keys; each query head of a group reads them.
//     decode_split   a block has a part of a sequence's keys, and reads them once, by tiles in shared memory, for all
//                    query heads of a group, which have a warp each; decode_join makes one of the parts.
//     decode_registers, decode_tensor_cores (in files of their own)   the same parts, which a thread has in registers as it
//                    loads them, multiplied by itself or by tensor cores.
//
// q and y are B×H×D, contiguous. The cache is in pages; they, their keys and heads lie strides apart. T is float, __half
// or __nv_bfloat16; the arithmetic is float. WIDTH is D rounded up.

#include "decode.cuh"

constexpr int HEADS = 8;  // at most, of a block

template <typename T, int WIDTH>
__global__ void __launch_bounds__(128)
    decode_warp(const T* q, const T* k, const T* v, const int* lengths, const int* tables, T* y, float* lse,
                long long k_page, long long k_key, long long k_head, long long v_page, long long v_key, long long v_head,
                int queries, int H, int GROUP, int D, int columns, int many, int size, float scale)
{
    constexpr int EACH = (WIDTH + 31) / 32;
    __shared__ float weights_of[4][KEYS];
    const int lane = threadIdx.x % 32, at = blockIdx.x * 4 + threadIdx.x / 32;
    float* weights = weights_of[threadIdx.x / 32];
    if (at >= queries) return;  // whole warps
    const int b = at / H, h = at % H;
    const int length = length_of(lengths, b, columns * size);
    const Pages pages(tables, b, columns, many, size);
    q += (long long)at * D;
    k += h / GROUP * k_head;
    v += h / GROUP * v_head;

    float sums[EACH] = {};
    Part part;
    for (int first = 0; first < length; first += KEYS) {
        float s = LOWEST;
        if (first + lane < length) {
            const T* key = k + pages.row(first + lane, k_page, k_key);
            s = 0.0f;
            for (int d = 0; d < D; ++d) s += (float)q[d] * (float)key[d];
            s *= scale;
        }
        const float largest = fmaxf(part.largest, warp_max(s)), fade = exp_for<T>(part.largest - largest);
        const float weight = first + lane < length ? exp_for<T>(s - largest) : 0.0f;
        part = {largest, part.sum * fade + warp_sum(weight)};
        weights[lane] = weight;
        __syncwarp();
        for (int c = 0; c < EACH; ++c) sums[c] *= fade;
        for (int j = 0; j < min(KEYS, length - first); ++j) {
            const T* value = v + pages.row(first + j, v_page, v_key);
            for (int c = 0; c < EACH; ++c)
                if (lane + 32 * c < D) sums[c] += weights[j] * (float)value[lane + 32 * c];
        }
        __syncwarp();  // before the weights are overwritten
    }
    store_query(y + (long long)at * D, lse + at, sums, part, D);
}

// A tile of the rows from `first` to `end` - 1, by packs of SIZE. What is behind them is left as it is, and not read.
template <typename T, int SIZE, int WIDTH>
struct Tile {
    static constexpr int PACKS = WIDTH / SIZE;
    typename Pack<T, SIZE>::Bits at[KEYS][PACKS + 1];  // one more: rows begin in different banks

    __device__ void fill(const T* from, long long page, long long key, const Pages& pages, int first, int end, int D)
    {
        for (int i = threadIdx.x; i < KEYS * PACKS; i += blockDim.x) {
            const int j = first + i / PACKS, column = i % PACKS * SIZE;
            if (j < end && column < D)
                at[i / PACKS][i % PACKS] =
                    *(const typename Pack<T, SIZE>::Bits*)(from + pages.row(j, page, key) + column);
        }
    }
    __device__ const T* row(int j) const { return (const T*)at[j]; }
};

// A block has part blockIdx.x of the keys of a sequence and a head of keys, blockIdx.y, and of its group at most HEADS
// query heads, from blockIdx.z · HEADS on.
template <typename T, int SIZE, int WIDTH>
__global__ void __launch_bounds__(32 * HEADS)
    decode_split(const T* q, const T* k, const T* v, const int* lengths, const int* tables, float* values, float* parts,
                 long long k_page, long long k_key, long long k_head, long long v_page, long long v_key, long long v_head,
                 int H, int GROUP, int D, int columns, int many, int size, float scale)
{
    constexpr int EACH = (WIDTH + 31) / 32;
    __shared__ Tile<T, SIZE, WIDTH> tile;
    __shared__ float queries[HEADS][WIDTH], weights[HEADS][KEYS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int b = blockIdx.y / (H / GROUP), head = blockIdx.y % (H / GROUP);
    const int length = length_of(lengths, b, columns * size), share = keys_of_part(length, gridDim.x);
    const int begin = blockIdx.x * share, end = min(begin + share, length);
    if (begin >= end) return;  // whole blocks
    const Pages pages(tables, b, columns, many, size);
    const int heads = min(HEADS, GROUP - (int)blockIdx.z * HEADS);
    const long long query = (long long)b * H + head * GROUP + blockIdx.z * HEADS + warp;
    const bool mine = warp < heads;  // the other warps copy tiles
    for (int d = lane; mine && d < D; d += 32) queries[warp][d] = (float)q[query * D + d] * scale;
    k += head * k_head;
    v += head * v_head;

    float sums[EACH] = {};
    Part part;
    for (int first = begin; first < end; first += KEYS) {
        __syncthreads();  // the values before are not read any more
        tile.fill(k, k_page, k_key, pages, first, end, D);
        __syncthreads();
        if (mine) {
            float s = LOWEST;
            if (first + lane < end) {
                Floats<SIZE> products = {};
                for (int d = 0; d < D; d += SIZE) {
                    const Floats<SIZE> key = load_floats<SIZE>(tile.row(lane) + d);
                    for (int i = 0; i < SIZE; ++i) products.at[i] += queries[warp][d + i] * key.at[i];
                }
                s = 0.0f;
                for (int i = 0; i < SIZE; ++i) s += products.at[i];
            }
            const float largest = fmaxf(part.largest, warp_max(s)), fade = exp_for<T>(part.largest - largest);
            const float weight = first + lane < end ? exp_for<T>(s - largest) : 0.0f;
            part = {largest, part.sum * fade + warp_sum(weight)};
            weights[warp][lane] = weight;
            for (int c = 0; c < EACH; ++c) sums[c] *= fade;
        }
        __syncthreads();  // the keys are not read any more
        tile.fill(v, v_page, v_key, pages, first, end, D);
        __syncthreads();
        for (int j = 0; mine && j < min(KEYS, end - first); ++j)
            for (int c = 0; c < EACH; ++c)
                if (lane + 32 * c < D) sums[c] += weights[warp][j] * (float)tile.row(j)[lane + 32 * c];
    }
    if (!mine) return;
    const long long at = query * gridDim.x + blockIdx.x;
    for (int c = 0; c < EACH; ++c)
        if (lane + 32 * c < D) values[at * D + lane + 32 * c] = sums[c];
    if (lane == 0) parts[2 * at] = part.largest;
    if (lane == 0) parts[2 * at + 1] = part.sum;
}

// A warp has a query, and adds up its parts in order, each scaled to the largest score of all. A lane knows how one part of 32 is
// scaled, and a few features of every part.
template <typename T, int WIDTH>
__global__ void __launch_bounds__(128)
    decode_join(const float* values, const float* parts, const int* lengths, T* y, float* lse,
                int queries, int H, int D, int many)
{
    constexpr int EACH = (WIDTH + 31) / 32, AHEAD = 8;  // parts that have been asked for before the first is added
    const int lane = threadIdx.x % 32, query = blockIdx.x * 4 + threadIdx.x / 32;
    if (query >= queries) return;  // whole warps
    const int length = lengths[query / H], share = keys_of_part(length, many), used = (length + share - 1) / share;
    const Part* part = (const Part*)parts + (long long)query * many;
    values += (long long)query * many * D;

    float sums[EACH] = {};
    Part whole;
    for (int i = lane; i < used; i += 32) whole.largest = fmaxf(whole.largest, part[i].largest);
    whole.largest = warp_max(whole.largest);
    for (int first = 0; first < used; first += 32) {
        Part own;
        if (first + lane < used) own = part[first + lane];
        const float fade = expf(own.largest - whole.largest);
        whole.sum += warp_sum(fade * own.sum);
        for (int i = first; i < min(first + 32, used); i += AHEAD) {
            float come[AHEAD][EACH] = {};
            for (int a = 0; a < AHEAD; ++a)
                for (int c = 0; c < EACH; ++c)
                    if (i + a < used && lane + 32 * c < D) come[a][c] = values[(long long)(i + a) * D + lane + 32 * c];
            for (int a = 0; a < AHEAD; ++a) {
                const float factor = __shfl_sync(0xffffffff, fade, i + a - first);
                for (int c = 0; c < EACH; ++c) sums[c] += factor * come[a][c];
            }
        }
    }
    store_query(y + (long long)query * D, lse + query, sums, whole, D);
}
