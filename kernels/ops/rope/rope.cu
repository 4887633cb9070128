// Level 5: rotary position embedding in CUDA C: q and k in one kernel, in place or into other memory. A thread turns SIZE
// pairs of features of HEADS heads at one position: their cosines and sines are read once.
//
// The pair (a, b) becomes (a * cos - b * sin, b * cos + a * sin). Pairs are (i, i + D/2), or where INTERLEAVED (2i, 2i + 1).
// T is float, __half or __nv_bfloat16; the arithmetic is float. SIZE values, a pack, are read at once: as many as
// one instruction can where features and angles lie so.

#include "packs.cuh"

struct Strides {
    long long batch, head, position, feature;
};

// The angles of SIZE neighbouring pairs, at most four a load: they are floats, whatever T is.
template <int SIZE>
__device__ void load_angles(const float* from, float (&angles)[SIZE])
{
    constexpr int LOADED = SIZE < 4 ? SIZE : 4;
    for (int p = 0; p < SIZE; p += LOADED) {
        const Floats<LOADED> some = load_floats<LOADED>(from + p);
        for (int i = 0; i < LOADED; ++i) angles[p + i] = some.at[i];
    }
}

// HEADS heads of x, from `head` on, at one position, whose angles begin at cosines and sines.
template <typename T, int SIZE, bool INTERLEAVED, int HEADS>
__device__ void turn_heads(const T* x, T* y, Strides from, Strides to, const float* cosines, const float* sines, int head,
                           int heads, int D, int pair, float turn)
{
    // The first features of what is read together, and how far the others are.
    const int first = INTERLEAVED ? 2 * pair : pair, apart = INTERLEAVED ? SIZE : D / 2;
    x += first * from.feature;
    y += first * to.feature;
    Pack<T, SIZE> packs[HEADS][2];
    float cos[SIZE], sin[SIZE];
#pragma unroll  // all of them on their way at once, and the angles
    for (int h = 0; h < HEADS; ++h)
        for (int part = 0; part < 2; ++part)
            if (head + h < heads) packs[h][part] = load_pack<SIZE>(x + (head + h) * from.head + part * apart * from.feature);
    load_angles(cosines + pair, cos);
    load_angles(sines + pair, sin);
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
        if (head + h >= heads) return;
        Floats<SIZE> values[2] = {widened(packs[h][0]), widened(packs[h][1])};
#pragma unroll
        for (int p = 0; p < SIZE; ++p) {
            // Where the pair lies in what was read.
            const int a = INTERLEAVED ? 2 * p : p, b = INTERLEAVED ? 2 * p + 1 : p + SIZE;
            float &one = values[a / SIZE].at[a % SIZE], &other = values[b / SIZE].at[b % SIZE];
            const float s = sin[p] * turn, turned = one * cos[p] - other * s;
            other = other * cos[p] + one * s;
            one = turned;
        }
        for (int part = 0; part < 2; ++part)
            store_floats(y + (head + h) * to.head + part * apart * to.feature, values[part]);
    }
}

// (blocks of positions, groups of HEADS heads of q and then of k, B) blocks of (pairs / SIZE, positions) threads: no division
// keeps the loads waiting. Of pairs that are more than a block, `parts` neighbouring blocks have a part each.
template <typename T, int SIZE, bool INTERLEAVED, int HEADS>
__global__ void rope(const T* q, const T* k, T* to_q, T* to_k, const float* cosines, const float* sines,
                     long long q_batch, long long q_head, long long q_position, long long q_feature,
                     long long k_batch, long long k_head, long long k_position, long long k_feature,
                     long long to_q_batch, long long to_q_head, long long to_q_position, long long to_q_feature,
                     long long to_k_batch, long long to_k_head, long long to_k_position, long long to_k_feature,
                     int q_heads, int k_heads, int S, int D, unsigned parts, float turn)
{
    unsigned place = blockIdx.x, part = 0;
    if (parts > 1) part = place % parts, place /= parts;
    const int position = place * blockDim.y + threadIdx.y, pair = (part * blockDim.x + threadIdx.x) * SIZE;
    const long long batch = blockIdx.z;
    if (position >= S || pair >= D / 2) return;
    // Chosen without a branch: the code is there once, and all loads are asked for one right after the other.
    const int groups = (q_heads + HEADS - 1) / HEADS;
    const bool is_q = blockIdx.y < groups;
    const Strides q_from = {q_batch, q_head, q_position, q_feature}, k_from = {k_batch, k_head, k_position, k_feature};
    const Strides q_to = {to_q_batch, to_q_head, to_q_position, to_q_feature};
    const Strides k_to = {to_k_batch, to_k_head, to_k_position, to_k_feature};
    const Strides from = is_q ? q_from : k_from, to = is_q ? q_to : k_to;
    const int head = (is_q ? blockIdx.y : blockIdx.y - groups) * HEADS, heads = is_q ? q_heads : k_heads;
    const T* x = (is_q ? q : k) + batch * from.batch + position * from.position;
    T* y = (is_q ? to_q : to_k) + batch * to.batch + position * to.position;
    const int angle = position * (D / 2);
    turn_heads<T, SIZE, INTERLEAVED, HEADS>(x, y, from, to, cosines + angle, sines + angle, head, heads, D, pair, turn);
}
