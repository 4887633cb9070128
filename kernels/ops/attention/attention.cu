// Level 5, forward: y_i = sum_j exp(s_ij - lse_i) v_j with s_ij = scale · q_i · k_j, in CUDA C. Rungs, plain to best:
//
//     attention_warp   a warp has a query, and its lanes 32 keys at a time; every query reads all of its keys from memory.
//     attention_tiled  a block has a tile of queries, and copies tiles of keys and values into shared memory for all of them.
//
// Both keep the softmax up to date: the largest score so far, the sum of exponentials, and values that fade when a larger score
// comes. T is float, __half or __nv_bfloat16; the arithmetic is float. WIDTH is D rounded up; y and lse are contiguous.

#include "attention.cuh"

template <typename T, int WIDTH>
__global__ void __launch_bounds__(128)
    attention_warp(const T* q, const T* k, const T* v, T* y, float* lse, Softmax* state,
                   long long q_batch, long long q_head, long long q_row,
                   long long k_batch, long long k_head, long long k_row,
                   long long v_batch, long long v_head, long long v_row,
                   long long rows, int H, int GROUP, int Q, int KV, int left, int right, int D,
                   float scale)
{
    const Sizes n{H, GROUP, Q, KV, left, right, D};
    constexpr int EACH = (WIDTH + 31) / 32;
    __shared__ float weights_of[4][32];
    const int lane = threadIdx.x % 32;
    float* weights = weights_of[threadIdx.x / 32];
    const long long at = blockIdx.x * 4LL + threadIdx.x / 32;
    if (at >= rows) return;  // whole warps
    const int i = at % n.Q, h = at / n.Q % n.H;
    const long long b = at / n.Q / n.H;
    q += b * q_batch + h * q_head + i * q_row;
    k += b * k_batch + h / n.GROUP * k_head;
    v += b * v_batch + h / n.GROUP * v_head;

    float sums[EACH] = {};
    Part part;
    const int end = n.end_of_keys(i);
    for (int first = n.begin_of_keys(i); first < end; first += 32) {
        const int j = first + lane;
        float chain_sums[4] = {};  // added up as the backward's dot does
        for (int d = 0; j < end && d < n.D; d += 4)
            for (int c = 0; c < 4 && d + c < n.D; ++c) chain_sums[c] += (float)q[d + c] * (float)k[j * k_row + d + c];
        const float sum = (chain_sums[0] + chain_sums[1]) + (chain_sums[2] + chain_sums[3]), s = j < end ? sum : LOWEST;
        const float largest = fmaxf(part.largest, warp_max(s)), fade = exp_for<T>(scale * (part.largest - largest));
        const float weight = j < end ? exp_for<T>(scale * (s - largest)) : 0.0f;
        part = {largest, part.sum * fade + warp_sum(weight)};
        weights[lane] = weight;
        __syncwarp();
        for (int c = 0; c < EACH; ++c) {
            const int d = lane + 32 * c;
            sums[c] *= fade;
            for (int key = 0; d < n.D && key < min(32, end - first); ++key)
                sums[c] += weights[key] * (float)v[(first + key) * v_row + d];
        }
        __syncwarp();  // before the weights are overwritten
    }
    for (int c = 0; c < EACH; ++c)
        if (lane + 32 * c < n.D) y[at * n.D + lane + 32 * c] = (T)(part.sum == 0.0f ? 0.0f : sums[c] / part.sum);
    if (lane == 0) finish(part, scale, lse, state, at);
}

template <typename T, int WIDTH, int TILE>
__global__ void __launch_bounds__(TILE* LANES)
    attention_tiled(const T* q, const T* k, const T* v, T* y, float* lse, Softmax* state,
                    long long q_batch, long long q_head, long long q_row,
                    long long k_batch, long long k_head, long long k_row,
                    long long v_batch, long long v_head, long long v_row,
                    long long rows, int H, int GROUP, int Q, int KV, int left, int right, int D,
                    float scale)
{
    const Sizes n{H, GROUP, Q, KV, left, right, D};
    __shared__ float queries[TILE][WIDTH + 1], tile[TILE][WIDTH + 1], weights[TILE][TILE + 1];
    const Place<TILE> place(n.H, n.Q);
    const int lane = place.lane, row = place.row, i = place.first + row;
    q += place.b * q_batch + place.h * q_head;
    k += place.b * k_batch + place.h / n.GROUP * k_head;
    v += place.b * v_batch + place.h / n.GROUP * v_head;
    fill<TILE, WIDTH>(queries, q, q_row, place.first, n.Q, n.D);

    float sums[WIDTH / LANES] = {};
    Part part;
    const int end = n.end_of_keys(min(place.first + TILE, n.Q) - 1);
    for (int first = n.begin_of_keys(place.first); first < end; first += TILE) {
        __syncthreads();  // the values before are not read any more
        fill<TILE, WIDTH>(tile, k, k_row, first, n.KV, n.D);
        __syncthreads();
        float s[TILE / LANES], largest = part.largest;
        for (int c = 0; c < TILE / LANES; ++c) {
            const int key = lane + LANES * c;
            s[c] = n.visible(i, first + key) ? dot<WIDTH>(queries[row], tile[key]) : LOWEST;
            largest = fmaxf(largest, s[c]);
        }
        largest = warp_max<LANES>(largest);
        const float fade = exp_for<T>(scale * (part.largest - largest));
        float sum = 0.0f;
        for (int c = 0; c < TILE / LANES; ++c) {
            const int key = lane + LANES * c;
            const float weight = n.visible(i, first + key) ? exp_for<T>(scale * (s[c] - largest)) : 0.0f;
            weights[row][key] = weight;
            sum += weight;
        }
        part = {largest, part.sum * fade + warp_sum<LANES>(sum)};
        __syncthreads();  // the keys are not read any more
        fill<TILE, WIDTH>(tile, v, v_row, first, n.KV, n.D);
        __syncthreads();
        for (int c = 0; c < WIDTH / LANES; ++c) sums[c] *= fade;
        add_weighted<TILE, WIDTH>(sums, weights[row], tile, lane);
    }
    if (i >= n.Q) return;
    const long long at = (place.b * n.H + place.h) * n.Q + i;
    for (int c = 0; c < WIDTH / LANES; ++c) {
        const int d = lane + LANES * c;
        if (d < n.D) y[at * n.D + d] = (T)(part.sum == 0.0f ? 0.0f : sums[c] / part.sum);
    }
    if (lane == 0) finish(part, scale, lse, state, at);
}
