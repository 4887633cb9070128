// Level 5: rotary position embedding in CUDA C: q and k in one kernel, in place or into other memory. A thread turns SIZE
// pairs of features of HEADS heads at one position: their cosines and sines are read once.
//
// The pair (a, b) becomes (a * cos - b * sin, b * cos + a * sin). Pairs are (i, i + D/2), or where INTERLEAVED (2i, 2i + 1).
// T is float, __half or __nv_bfloat16; the arithmetic is float. SIZE is a 16-byte vector's where features and angles lie so,
// else 1.

#include "values.cuh"

struct Strides {
    long long batch, head, position, feature;
};

// The angles of SIZE neighbouring pairs, four a load: they are floats, whatever T is.
template <int SIZE>
__device__ void load_angles(const float* from, float (&angles)[SIZE])
{
    if constexpr (SIZE == 1) {
        angles[0] = *from;
    } else {
        for (int p = 0; p < SIZE; p += 4) {
            const float4 four = *(const float4*)(from + p);
            angles[p] = four.x;
            angles[p + 1] = four.y;
            angles[p + 2] = four.z;
            angles[p + 3] = four.w;
        }
    }
}

template <typename T, int SIZE, bool INTERLEAVED, int HEADS>
__device__ void turn_heads(const T* x, T* y, Strides from, Strides to, int head, int heads, int D, int pair,
                           const float (&cos)[SIZE], const float (&sin)[SIZE])
{
    // The first features of what is read together, and how far the others are.
    const int first = INTERLEAVED ? 2 * pair : pair, apart = INTERLEAVED ? SIZE : D / 2;
    x += first * from.feature;
    y += first * to.feature;
    float values[HEADS][2][SIZE];
#pragma unroll  // all of them on their way at once
    for (int i = 0; i < HEADS; ++i)
        for (int part = 0; part < 2; ++part)
            if (head + i < heads)
                load_floats<SIZE>(x + (head + i) * from.head + part * apart * from.feature, values[i][part]);
#pragma unroll
    for (int i = 0; i < HEADS; ++i) {
        if (head + i >= heads) return;
#pragma unroll
        for (int p = 0; p < SIZE; ++p) {
            // Where the pair lies in what was read.
            const int a = INTERLEAVED ? 2 * p : p, b = INTERLEAVED ? 2 * p + 1 : p + SIZE;
            float &one = values[i][a / SIZE][a % SIZE], &other = values[i][b / SIZE][b % SIZE];
            const float turned = one * cos[p] - other * sin[p];
            other = other * cos[p] + one * sin[p];
            one = turned;
        }
        for (int part = 0; part < 2; ++part)
            store_floats<SIZE>(y + (head + i) * to.head + part * apart * to.feature, values[i][part]);
    }
}

// (B * blocks, groups of HEADS heads of q and then of k) blocks; so many cover the positions, D / 2 / SIZE threads each.
template <typename T, int SIZE, bool INTERLEAVED, int HEADS>
__global__ void rope(const T* q, const T* k, T* to_q, T* to_k, const float* cos, const float* sin,
                     long long q_batch, long long q_head, long long q_position, long long q_feature,
                     long long k_batch, long long k_head, long long k_position, long long k_feature,
                     long long to_q_batch, long long to_q_head, long long to_q_position, long long to_q_feature,
                     long long to_k_batch, long long to_k_head, long long to_k_position, long long to_k_feature,
                     int heads, int kv_heads, int S, int D, unsigned blocks, float turn)
{
    // 32 bits are enough for the pairs of all positions; divisions in 64 would keep the loads waiting.
    const unsigned position_pairs = D / 2 / SIZE;
    const unsigned i = blockIdx.x % blocks * blockDim.x + threadIdx.x;
    const long long batch = blockIdx.x / blocks;
    const int position = i / position_pairs, pair = i % position_pairs * SIZE;
    if (position >= S) return;
    const int angle = position * (D / 2) + pair;
    float c[SIZE], s[SIZE];
    load_angles(cos + angle, c);
    load_angles(sin + angle, s);
    for (int p = 0; p < SIZE; ++p) s[p] *= turn;
    const int group = blockIdx.y, q_groups = (heads + HEADS - 1) / HEADS;
    if (group < q_groups)
        turn_heads<T, SIZE, INTERLEAVED, HEADS>(
            q + batch * q_batch + position * q_position, to_q + batch * to_q_batch + position * to_q_position,
            {q_batch, q_head, q_position, q_feature}, {to_q_batch, to_q_head, to_q_position, to_q_feature},
            group * HEADS, heads, D, pair, c, s);
    else
        turn_heads<T, SIZE, INTERLEAVED, HEADS>(
            k + batch * k_batch + position * k_position, to_k + batch * to_k_batch + position * to_k_position,
            {k_batch, k_head, k_position, k_feature}, {to_k_batch, to_k_head, to_k_position, to_k_feature},
            (group - q_groups) * HEADS, kv_heads, D, pair, c, s);
}
