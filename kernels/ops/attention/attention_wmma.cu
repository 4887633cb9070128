// Level 5, forward, on the tensor cores by nvcuda::wmma, for half types: both products are of fragments of 16×16.
//
// A block of 4 warps has 64 queries, 16 a warp, and walks over tiles of KEYS keys. Keys come while the values before are
// multiplied, and values while scores and weights are computed, by asynchronous copies. A warp's scores lie in shared memory as
// floats, since a lane must know whose scores it has; weights take their place as T.

#include "async_tiles.cuh"
#include "attention.cuh"

#include <mma.h>

using namespace nvcuda;

constexpr int THREADS = 128, QUERIES = 64;  // of a block
constexpr unsigned ALL = 0xffffffff;

template <typename T, int WIDTH, int KEYS, bool ALIGNED>
__global__ void __launch_bounds__(THREADS, WIDTH > 128 ? 2 : 3)  // as many blocks as shared memory holds
    attention_wmma(const T* q, const T* k, const T* v, T* y, float* lse, Softmax* state,
                   long long q_batch, long long q_head, long long q_row,
                   long long k_batch, long long k_head, long long k_row,
                   long long v_batch, long long v_head, long long v_row,
                   long long rows, int H, int GROUP, int Q, int KV, int left, int right, int D,
                   float scale)
{
    const Sizes n{H, GROUP, Q, KV, left, right, D};
    constexpr int LINE = WIDTH + PAD, PITCH = KEYS + 4;  // by which the rows of a warp's lanes start in different banks
    constexpr int ACROSS = WIDTH / 16, TILES = KEYS / 16;
    extern __shared__ uint4 shared[];
    T *queries = (T*)shared, *keys = queries + QUERIES * LINE, *values = keys + KEYS * LINE;
    const int warp = threadIdx.x / 32, row = threadIdx.x % 32 / 2, side = threadIdx.x % 2;  // two lanes share a row
    float* scores = (float*)(values + KEYS * LINE) + warp * 16 * PITCH;
    T* weights = (T*)scores;
    float* fades = scores + KEYS / 2;  // beside the weights, which take half of a row

    const int tiles = (n.Q + QUERIES - 1) / QUERIES, begin = blockIdx.x % tiles * QUERIES, i = begin + 16 * warp + row;
    const long long head = blockIdx.x / tiles, b = head / n.H;
    const int h = head % n.H;
    q += b * q_batch + h * q_head + begin * q_row;
    k += b * k_batch + h / n.GROUP * k_head;
    v += b * v_batch + h / n.GROUP * v_head;
    auto fetch_keys = [&](T* tile, const T* from, long long stride, int first) {
        fetch<THREADS, KEYS, WIDTH, ALIGNED>(tile, from + first * stride, stride, n.KV - first, n.D);
        __pipeline_commit();
    };
    // A lane has every other score of its row. Rows from 8 on begin one pair further: so no two rows ask one bank.
    auto column = [&](int c, int columns) { return (2 * (c + row / 8) + side) % columns; };

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[ACROSS];
    for (int c = 0; c < ACROSS; ++c) wmma::fill_fragment(sums[c], 0.0f);
    Part part;
    const int start = n.begin_of_keys(begin), end = n.end_of_keys(min(begin + QUERIES, n.Q) - 1);
    fetch<THREADS, QUERIES, WIDTH, ALIGNED>(queries, q, q_row, n.Q - begin, n.D);
    if (start < end) fetch_keys(keys, k, k_row, start);
    for (int first = start; first < end; first += KEYS) {
        __pipeline_wait_prior(0);
        __syncthreads();  // the keys are here, and the values before are not read any more
        fetch_keys(values, v, v_row, first);
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> products[TILES];
        for (int c = 0; c < TILES; ++c) wmma::fill_fragment(products[c], 0.0f);
        for (int d = 0; d < WIDTH; d += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> q_fragment;
            wmma::load_matrix_sync(q_fragment, queries + 16 * warp * LINE + d, LINE);
            for (int c = 0; c < TILES; ++c) {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::col_major> k_fragment;
                wmma::load_matrix_sync(k_fragment, keys + 16 * c * LINE + d, LINE);
                wmma::mma_sync(products[c], q_fragment, k_fragment, products[c]);
            }
        }
        for (int c = 0; c < TILES; ++c) wmma::store_matrix_sync(scores + 16 * c, products[c], PITCH, wmma::mem_row_major);
        __syncwarp();

        float s[KEYS / 2], largest = part.largest, sum = 0.0f;
        for (int c = 0; c < KEYS / 2; ++c) {
            s[c] = LOWEST;
            if (n.visible(i, first + column(c, KEYS))) s[c] = scores[row * PITCH + column(c, KEYS)];
            largest = fmaxf(largest, s[c]);
        }
        largest = warp_max<2>(largest);
        const float fade = exp_for<T>(scale * (part.largest - largest));
        __syncwarp();  // before the scores are overwritten
        for (int c = 0; c < KEYS / 2; ++c) {
            const float weight = n.visible(i, first + column(c, KEYS)) ? exp_for<T>(scale * (s[c] - largest)) : 0.0f;
            weights[row * 2 * PITCH + column(c, KEYS)] = (T)weight;
            sum += weight;
        }
        part = {largest, part.sum * fade + warp_sum<2>(sum)};
        if (__any_sync(ALL, fade != 1.0f)) {
            // Which rows a lane has of a fragment is the hardware's own affair, but it is the same ones of every accumulator.
            for (int c = 0; c < 8; ++c) fades[row * PITCH + column(c, 16)] = fade;
            __syncwarp();
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> row_factors;
            wmma::load_matrix_sync(row_factors, fades, PITCH, wmma::mem_row_major);
            for (int c = 0; c < ACROSS; ++c)
                for (int e = 0; e < row_factors.num_elements; ++e) sums[c].x[e] *= row_factors.x[e];
        }
        __pipeline_wait_prior(0);
        __syncthreads();  // the values and all weights are here, and the keys are not read any more
        if (first + KEYS < end) fetch_keys(keys, k, k_row, first + KEYS);
        for (int c = 0; c < TILES; ++c) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> weights_fragment;
            wmma::load_matrix_sync(weights_fragment, weights + 16 * c, 2 * PITCH);
            for (int d = 0; d < ACROSS; ++d) {
                wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> v_fragment;
                wmma::load_matrix_sync(v_fragment, values + 16 * c * LINE + 16 * d, LINE);
                wmma::mma_sync(sums[d], weights_fragment, v_fragment, sums[d]);
            }
        }
    }
    __pipeline_wait_prior(0);  // where no key is seen, queries are still on their way

    const float share = part.sum == 0.0f ? 0.0f : 1.0f / part.sum;
    const int lane = threadIdx.x % 32;
    for (int d = 0; d < ACROSS; ++d) {
        __syncwarp();
        wmma::store_matrix_sync(scores, sums[d], PITCH, wmma::mem_row_major);
        __syncwarp();
        for (int at = lane; at < 16 * 16; at += 32) {  // two rows of 16 features at a time
            const int of = at / 16, feature = 16 * d + at % 16, to = begin + 16 * warp + of;
            const float row_factor = __shfl_sync(ALL, share, 2 * of);
            if (to < n.Q && feature < n.D) y[(head * n.Q + to) * n.D + feature] = (T)(row_factor * scores[of * PITCH + at % 16]);
        }
    }
    if (side == 0 && i < n.Q) finish(part, scale, lse, state, head * n.Q + i);
}
