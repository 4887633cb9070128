// Attention over (B, H, S, D): in three kernels, flash, a query a warp, and a split cache with a merge.

#define FLT_MAX 3.402823466e+38f

// preatt[b][h][t][t2], causal.
__global__ void attention_query_kernel(float* preatt, const float* q, const float* k, int BH, int T, int hs)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= BH * T * T) return;
    int t2 = idx % T, t = (idx / T) % T, bh = idx / (T * T);
    if (t2 > t) {
        preatt[idx] = -FLT_MAX;
        return;
    }
    float val = 0.0f;
    for (int i = 0; i < hs; i++) val += q[(bh * T + t) * hs + i] * k[(bh * T + t2) * hs + i];
    preatt[idx] = val * rsqrtf((float)hs);
}

__global__ void attention_softmax_kernel(float* att, const float* preatt, int BH, int T)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= BH * T) return;
    const float* pre = preatt + (size_t)idx * T;
    float* out = att + (size_t)idx * T;
    int t = idx % T;
    float maxval = -10000.0f, expsum = 0.0f;
    for (int i = 0; i <= t; i++) maxval = fmaxf(maxval, pre[i]);
    for (int i = 0; i <= t; i++) expsum += out[i] = expf(pre[i] - maxval);
    for (int i = 0; i < T; i++) out[i] = i <= t ? out[i] / expsum : 0.0f;
}

__global__ void attention_value_kernel(float* out, const float* att, const float* v, int BH, int T, int hs)
{
    for (int idx = blockIdx.x * blockDim.x + threadIdx.x; idx < BH * T * hs; idx += gridDim.x * blockDim.x) {
        int i = idx % hs, t = (idx / hs) % T, bh = idx / (hs * T);
        float sum = 0.0f;
        for (int t2 = 0; t2 <= t; t2++) sum += att[(bh * T + t) * T + t2] * v[(bh * T + t2) * hs + i];
        out[idx] = sum;
    }
}

// Flash attention in its smallest form: a block for each head, tiles of K and V in shared memory, l and m kept outside.
__global__ void flash_forward(const float* Q, const float* K, const float* V, const int N, const int d, const int Tc, const int Tr,
                              const int Bc, const int Br, const float softmax_scale, float* l, float* m, float* O)
{
    int tx = threadIdx.x;
    int bx = blockIdx.x, by = blockIdx.y;
    int qkv_offset = (bx * gridDim.y * N * d) + (by * N * d);
    int lm_offset = (bx * gridDim.y * N) + (by * N);

    extern __shared__ float sram[];
    float* Qi = sram;
    float* Kj = Qi + Br * d;
    float* Vj = Kj + Bc * d;
    float* S = Vj + Bc * d;

    for (int j = 0; j < Tc; j++) {
        const int kv = j * Bc + tx;
        for (int x = 0; x < d; x++) {
            Kj[tx * d + x] = kv < N ? K[qkv_offset + kv * d + x] : 0.f;
            Vj[tx * d + x] = kv < N ? V[qkv_offset + kv * d + x] : 0.f;
        }
        __syncthreads();
        for (int i = 0; i < Tr; i++) {
            const int qr = i * Br + tx;
            if (qr < N) {
                for (int x = 0; x < d; x++) Qi[tx * d + x] = Q[qkv_offset + qr * d + x];
                float row_m_prev = m[lm_offset + qr], row_l_prev = l[lm_offset + qr];
                float row_m = -FLT_MAX;
                for (int y = 0; y < Bc && j * Bc + y < N; y++) {
                    float sum = 0;
                    for (int x = 0; x < d; x++) sum += Qi[tx * d + x] * Kj[y * d + x];
                    sum *= softmax_scale;
                    S[Bc * tx + y] = sum;
                    if (sum > row_m) row_m = sum;
                }
                float row_l = 0;
                for (int y = 0; y < Bc && j * Bc + y < N; y++) row_l += S[Bc * tx + y] = __expf(S[Bc * tx + y] - row_m);
                float row_m_new = max(row_m_prev, row_m);
                float row_l_new = __expf(row_m_prev - row_m_new) * row_l_prev + __expf(row_m - row_m_new) * row_l;
                for (int x = 0; x < d; x++) {
                    float pv = 0;
                    for (int y = 0; y < Bc && j * Bc + y < N; y++) pv += S[Bc * tx + y] * Vj[y * d + x];
                    float& o = O[qkv_offset + qr * d + x];
                    o = (1 / row_l_new) * (row_l_prev * __expf(row_m_prev - row_m_new) * o + __expf(row_m - row_m_new) * pv);
                }
                m[lm_offset + qr] = row_m_new;
                l[lm_offset + qr] = row_l_new;
            }
        }
        __syncthreads();
    }
}

// A query a warp, lanes over the head's dimensions, grouped heads of K and V, any length of keys; writes the log-sum-exp.
template <int kHeadDim, bool kCausal>
__global__ void attention_warp(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                               float* __restrict__ o, float* __restrict__ lse, int S, int heads, int kv_heads)
{
    constexpr int kPerLane = kHeadDim / 32;
    const int query = blockIdx.x * blockDim.y + threadIdx.y, head = blockIdx.y, lane = threadIdx.x;
    if (query >= S) return;
    const int kv_head = head / (heads / kv_heads);
    float qr[kPerLane], acc[kPerLane] = {};
    for (int i = 0; i < kPerLane; ++i) qr[i] = q[(head * S + query) * kHeadDim + i * 32 + lane] * rsqrtf(kHeadDim);
    float m = -FLT_MAX, l = 0.0f;
    const int last = kCausal ? query : S - 1;
    for (int key = 0; key <= last; ++key) {
        const float* kr = k + (kv_head * S + key) * kHeadDim;
        float dot = 0.0f;
        #pragma unroll
        for (int i = 0; i < kPerLane; ++i) dot += qr[i] * kr[i * 32 + lane];
        #pragma unroll
        for (int d = 16; d > 0; d >>= 1) dot += __shfl_xor_sync(0xffffffffu, dot, d);
        const float m_new = fmaxf(m, dot), scale = exp2f((m - m_new) * 1.44269504f), p = exp2f((dot - m_new) * 1.44269504f);
        l = l * scale + p;
        m = m_new;
        for (int i = 0; i < kPerLane; ++i) acc[i] = acc[i] * scale + p * v[(kv_head * S + key) * kHeadDim + i * 32 + lane];
    }
    for (int i = 0; i < kPerLane; ++i) o[(head * S + query) * kHeadDim + i * 32 + lane] = acc[i] / l;
    if (lane == 0) lse[head * S + query] = m + logf(l);
}

// Decoding: one query, the keys split over blocks; partial results are merged by their log-sum-exp.
struct Partial { float m, l; };

__global__ void decode_split(const float* q, const float* k, const float* v, float* part_o, Partial* part, int S, int D, int per_split)
{
    extern __shared__ float scores[];  // per_split
    __shared__ Partial p;
    const int split = blockIdx.x, first = split * per_split, count = min(per_split, S - first);
    for (int j = threadIdx.x; j < count; j += blockDim.x) {
        float dot = 0.f;
        for (int i = 0; i < D; ++i) dot += q[i] * k[(first + j) * D + i];
        scores[j] = dot * rsqrtf(D);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        p = {-FLT_MAX, 0.f};
        for (int j = 0; j < count; ++j) p.m = fmaxf(p.m, scores[j]);
        for (int j = 0; j < count; ++j) p.l += scores[j] = expf(scores[j] - p.m);
        part[split] = p;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < D; i += blockDim.x) {
        float sum = 0.f;
        for (int j = 0; j < count; ++j) sum += scores[j] * v[(first + j) * D + i];
        part_o[split * D + i] = sum;
    }
}

__global__ void decode_merge(const float* part_o, const Partial* part, float* o, int splits, int D)
{
    const int i = threadIdx.x;
    if (i >= D) return;
    float m = -FLT_MAX, l = 0.f, sum = 0.f;
    for (int s = 0; s < splits; ++s) m = fmaxf(m, part[s].m);
    for (int s = 0; s < splits; ++s) {
        const float w = expf(part[s].m - m);
        l += w * part[s].l;
        sum += w * part_o[s * D + i];
    }
    o[i] = sum / l;
}
