// Rotary position embeddings.
#include <cuda_fp16.h>

// Pairs are halves of a head, angles are computed; q of (tokens, heads, head_dim), in place.
__global__ void rope_half_split(float* q, const int* positions, int heads, int head_dim, float base)
{
    const int token = blockIdx.x, half_dim = head_dim / 2;
    for (int i = threadIdx.x; i < heads * half_dim; i += blockDim.x) {
        const int head = i / half_dim, d = i % half_dim;
        const float freq = powf(base, -2.0f * d / head_dim), angle = positions[token] * freq;
        const float c = cosf(angle), s = sinf(angle);
        float* at = q + (token * heads + head) * head_dim + d;
        const float x = at[0], y = at[half_dim];
        at[0] = x * c - y * s;
        at[half_dim] = y * c + x * s;
    }
}

// Neighbours are pairs: a complex number times a table of (cosine, sine).
__global__ void rope_interleaved(const float2* __restrict__ x, const float2* __restrict__ freqs_cis,
                                 float2* __restrict__ y, int seq, int heads, int pairs)
{
    const int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= seq * heads * pairs) return;
    const int p = idx % pairs, t = idx / (heads * pairs);
    const float2 v = x[idx], w = freqs_cis[t * pairs + p];
    y[idx] = float2{v.x * w.x - v.y * w.y, v.x * w.y + v.y * w.x};
}

// The same in half, two pairs a load; sine and cosine in float.
__global__ void rope_half2(__half2* x, const float* __restrict__ cos_table, const float* __restrict__ sin_table, int seq, int pairs)
{
    const int p = threadIdx.x, t = blockIdx.x * blockDim.y + threadIdx.y;
    if (t >= seq || p >= pairs) return;
    const float2 v = __half22float2(x[t * pairs + p]);
    const float c = cos_table[t * pairs + p], s = sin_table[t * pairs + p];
    x[t * pairs + p] = __floats2half2_rn(v.x * c - v.y * s, v.x * s + v.y * c);
}
