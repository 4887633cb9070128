// Level 5, backward, in CUDA C: with weights p_ij = exp(scale · (q_i · k_j - largest_i) - log_sum_i), which are computed again,
//
//     ds_ij = p_ij (dy_i · v_j - delta_i),  dq_i = scale · sum_j ds_ij k_j,  dk_j = scale · sum_i ds_ij q_i,  dv_j = sum_i p_ij dy_i
//
// attention_delta gives delta_i = dy_i · y_i; in attention_dq a block has a tile of queries and walks over keys, in attention_dkdv
// it has a tile of keys and walks over the queries of every head that shares them: no two blocks add to one gradient. Sums are
// float. y, state, delta and the gradients are contiguous.

#include "attention.cuh"

// A warp a query.
template <typename T>
__global__ void attention_delta(const T* dy, const T* y, float* delta, long long dy_batch, long long dy_head,
                                long long dy_row, long long rows, int H, int Q, int D)
{
    const long long at = blockIdx.x * 4LL + threadIdx.x / 32;
    if (at >= rows) return;
    dy += at / Q / H * dy_batch + at / Q % H * dy_head + at % Q * dy_row;
    float sum = 0.0f;
    for (int d = threadIdx.x % 32; d < D; d += 32) sum += (float)dy[d] * (float)y[at * D + d];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) delta[at] = sum;
}

template <typename T, int WIDTH, int TILE>
__global__ void __launch_bounds__(TILE* LANES)
    attention_dq(const T* dy, const T* q, const T* k, const T* v, const Softmax* state, const float* delta, T* dq,
                 long long dy_batch, long long dy_head, long long dy_row,
                 long long q_batch, long long q_head, long long q_row,
                 long long k_batch, long long k_head, long long k_row,
                 long long v_batch, long long v_head, long long v_row,
                 int H, int GROUP, int Q, int KV, int left, int right, int D, float scale)
{
    const Sizes n{H, GROUP, Q, KV, left, right, D};
    __shared__ float qs[TILE][WIDTH + 1], dys[TILE][WIDTH + 1], ks[TILE][WIDTH + 1], vs[TILE][WIDTH + 1];
    __shared__ float ds[TILE][TILE + 1];
    const Place<TILE> place(n.H, n.Q);
    const int lane = place.lane, row = place.row, i = place.first + row;
    const long long at = (place.b * n.H + place.h) * n.Q + i;
    k += place.b * k_batch + place.h / n.GROUP * k_head;
    v += place.b * v_batch + place.h / n.GROUP * v_head;
    fill<TILE, WIDTH>(qs, q + place.b * q_batch + place.h * q_head, q_row, place.first, n.Q, n.D);
    fill<TILE, WIDTH>(dys, dy + place.b * dy_batch + place.h * dy_head, dy_row, place.first, n.Q, n.D);
    const Softmax softmax = i < n.Q ? state[at] : Softmax{};
    const float delta_value = i < n.Q ? delta[at] : 0.0f;

    float sums[WIDTH / LANES] = {};
    const int end = n.end_of_keys(min(place.first + TILE, n.Q) - 1);
    for (int first = n.begin_of_keys(place.first); first < end; first += TILE) {
        __syncthreads();
        fill<TILE, WIDTH>(ks, k, k_row, first, n.KV, n.D);
        fill<TILE, WIDTH>(vs, v, v_row, first, n.KV, n.D);
        __syncthreads();
        for (int key = lane; key < TILE; key += LANES) {
            float dscore = 0.0f;
            if (n.visible(i, first + key)) {
                const float p = softmax.weight<T>(dot<WIDTH>(qs[row], ks[key]), scale);
                dscore = p * (dot<WIDTH>(dys[row], vs[key]) - delta_value);
            }
            ds[row][key] = dscore;
        }
        __syncthreads();
        add_weighted<TILE, WIDTH>(sums, ds[row], ks, lane);
    }
    for (int c = 0; i < n.Q && c < WIDTH / LANES; ++c)
        if (lane + LANES * c < n.D) dq[at * n.D + lane + LANES * c] = (T)(sums[c] * scale);
}

template <typename T, int WIDTH, int TILE>
__global__ void __launch_bounds__(TILE* LANES)
    attention_dkdv(const T* dy, const T* q, const T* k, const T* v, const Softmax* state, const float* delta, T* dk, T* dv,
                   long long dy_batch, long long dy_head, long long dy_row,
                   long long q_batch, long long q_head, long long q_row,
                   long long k_batch, long long k_head, long long k_row,
                   long long v_batch, long long v_head, long long v_row,
                   int H, int GROUP, int Q, int KV, int left, int right, int D, float scale)
{
    const Sizes n{H, GROUP, Q, KV, left, right, D};
    __shared__ float qs[TILE][WIDTH + 1], dys[TILE][WIDTH + 1], ks[TILE][WIDTH + 1], vs[TILE][WIDTH + 1];
    __shared__ float ps[TILE][TILE + 1], ds[TILE][TILE + 1];
    const int heads = n.H / n.GROUP;
    const Place<TILE> place(heads, n.KV);
    const int lane = place.lane, row = place.row, j = place.first + row;
    fill<TILE, WIDTH>(ks, k + place.b * k_batch + place.h * k_head, k_row, place.first, n.KV, n.D);
    fill<TILE, WIDTH>(vs, v + place.b * v_batch + place.h * v_head, v_row, place.first, n.KV, n.D);

    float dk_sums[WIDTH / LANES] = {}, dv_sums[WIDTH / LANES] = {};
    const int end = n.end_of_queries(min(place.first + TILE, n.KV) - 1);
    for (int h = place.h * n.GROUP; h < (place.h + 1) * n.GROUP; ++h) {
        const T *queries = q + place.b * q_batch + h * q_head, *dys_of = dy + place.b * dy_batch + h * dy_head;
        const long long rows = (place.b * n.H + h) * n.Q;
        for (int first = n.begin_of_queries(place.first); first < end; first += TILE) {
            __syncthreads();
            fill<TILE, WIDTH>(qs, queries, q_row, first, n.Q, n.D);
            fill<TILE, WIDTH>(dys, dys_of, dy_row, first, n.Q, n.D);
            __syncthreads();
            for (int query = lane; query < TILE; query += LANES) {
                float p = 0.0f, dscore = 0.0f;
                if (n.visible(first + query, j)) {
                    const long long at = rows + first + query;
                    p = state[at].weight<T>(dot<WIDTH>(qs[query], ks[row]), scale);
                    dscore = p * (dot<WIDTH>(dys[query], vs[row]) - delta[at]);
                }
                ps[row][query] = p;
                ds[row][query] = dscore;
            }
            __syncthreads();
            add_weighted<TILE, WIDTH>(dk_sums, ds[row], qs, lane);
            add_weighted<TILE, WIDTH>(dv_sums, ps[row], dys, lane);
        }
    }
    for (int c = 0; j < n.KV && c < WIDTH / LANES; ++c) {
        const long long at = ((place.b * heads + place.h) * n.KV + j) * n.D + lane + LANES * c;
        if (lane + LANES * c >= n.D) continue;
        dk[at] = (T)(dk_sums[c] * scale);
        dv[at] = (T)dv_sums[c];
    }
}
