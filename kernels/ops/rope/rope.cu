// Level 5: rotary position embedding in CUDA C: q and k in one kernel. A thread turns some pairs of features of HEADS heads at
// one position: their cosines and sines are read once.
//
// The pair (a, b) becomes (a * cos - b * sin, b * cos + a * sin). Pairs are (i, i + D/2), or where INTERLEAVED (2i, 2i + 1).
// BACK: turned back, into new memory without gaps; otherwise in place. T is float, __half or __nv_bfloat16; the arithmetic is
// float. SIZE values, a pack, are read at once: as many as one instruction can where features and angles lie so. A thread has
// two packs of a head, the first and the second features of its pairs; interleaved, whole pairs lie in one pack, and it is all
// that a thread has, so that neighbouring threads read neighbouring packs.
// Index counts the elements of q and k: where it is an int, few instructions come before the loads.

#include "packs.cuh"

template <typename Index>
struct Strides {
    Index batch, head, position, feature;
};

// The angles of PAIRS neighbouring pairs, at most four a load: they are floats, whatever T is.
template <int PAIRS>
__device__ void load_angles(const float* from, float (&angles)[PAIRS])
{
    constexpr int LOADED = PAIRS < 4 ? PAIRS : 4;
    for (int p = 0; p < PAIRS; p += LOADED) {
        const Floats<LOADED> some = load_floats<LOADED>(from + p);
        for (int i = 0; i < LOADED; ++i) angles[p + i] = some.at[i];
    }
}

// Turns the pairs in what a thread has of a head: forward, or BACK.
template <bool INTERLEAVED, bool BACK, int SIZE, int PACKS, int PAIRS>
__device__ void turn_pairs(Floats<SIZE> (&values)[PACKS], const float (&cos)[PAIRS], const float (&sin)[PAIRS])
{
#pragma unroll
    for (int p = 0; p < PAIRS; ++p) {
        // Where the pair lies in what was read.
        const int a = INTERLEAVED ? 2 * p : p, b = INTERLEAVED ? 2 * p + 1 : p + SIZE;
        float &one = values[a / SIZE].at[a % SIZE], &other = values[b / SIZE].at[b % SIZE];
        const float s = BACK ? -sin[p] : sin[p], turned = one * cos[p] - other * s;
        other = other * cos[p] + one * s;
        one = turned;
    }
}

// (blocks of positions, groups of HEADS heads of q and then of k, B) blocks of (threads of a head, positions) threads, from the
// pair `first_pair` on: no division keeps the loads waiting. to_q and to_k, without gaps, are where BACK writes.
template <typename T, typename Index, int SIZE, bool INTERLEAVED, int HEADS, bool BACK>
__global__ void rope(T* q, T* k, T* to_q, T* to_k, const float* cosines, const float* sines,
                     Index q_batch, Index q_head, Index q_position, Index q_feature,
                     Index k_batch, Index k_head, Index k_position, Index k_feature,
                     int q_heads, int k_heads, int S, int pairs, int first_pair)
{
    constexpr int PACKS = INTERLEAVED && SIZE > 1 ? 1 : 2, PAIRS = SIZE * PACKS / 2;  // of a thread in a head
    const int position = blockIdx.x * blockDim.y + threadIdx.y, pair = first_pair + threadIdx.x * PAIRS;
    if (position >= S || pair >= pairs) return;
    // Chosen without a branch: the code is there once, and all loads are asked for one right after the other.
    const int groups = (q_heads + HEADS - 1) / HEADS;
    const bool is_q = blockIdx.y < groups;
    const int head = (is_q ? blockIdx.y : blockIdx.y - groups) * HEADS, heads = is_q ? q_heads : k_heads;
    const Strides<Index> q_from = {q_batch, q_head, q_position, q_feature}, k_from = {k_batch, k_head, k_position, k_feature};
    const Strides<Index> from = is_q ? q_from : k_from;
    T *x = is_q ? q : k, *y = BACK ? (is_q ? to_q : to_k) : x;
    // The features of a pack of several values are neighbours.
    const Index batch = blockIdx.z, feature = SIZE > 1 ? 1 : from.feature;
    const Index x_at = batch * from.batch + head * from.head + position * from.position;
    // The first features of what is read together, and how far the others are.
    const int first = INTERLEAVED ? 2 * pair : pair, apart = INTERLEAVED ? 1 : pairs;
    Pack<T, SIZE> packs[HEADS][PACKS];
    float cos[PAIRS], sin[PAIRS];
#pragma unroll  // all of them on their way at once, and the angles
    for (int h = 0; h < HEADS; ++h)
        for (int part = 0; part < PACKS; ++part)
            if (h == 0 || head + h < heads)
                packs[h][part] = load_pack<SIZE>(x + (x_at + h * from.head + (first + part * apart) * feature));
    load_angles(cosines + (position * pairs + pair), cos);
    load_angles(sines + (position * pairs + pair), sin);
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
        if (h > 0 && head + h >= heads) return;
        Floats<SIZE> values[PACKS];
        for (int part = 0; part < PACKS; ++part) values[part] = widened(packs[h][part]);
        turn_pairs<INTERLEAVED, BACK>(values, cos, sin);
        const Index y_at = BACK ? ((batch * heads + head + h) * S + position) * 2 * pairs : x_at + h * from.head;
        for (int part = 0; part < PACKS; ++part)
            store_floats(y + (y_at + (first + part * apart) * (BACK ? 1 : feature)), values[part]);
    }
}
