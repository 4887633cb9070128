// Level 5: decoding with no key or value in shared memory. A block has a part of a sequence's keys, as in decode_split, and a warp
// 32 of them at a time. Neighbouring lanes read a key by packs of 16 bytes, and keep its features in registers, beside those of
// every query head and of the weighted sums. The product of a key with a query is a sum over its lanes; then each lane has a
// key, and makes weights of the scores. No warp waits for another until the end.
//
// q is B×H×D, contiguous; a pack is SIZE features. The rest is as in decode.cu, whose decode_join makes one of the parts.

#include "decode.cuh"

constexpr int WARPS = 4;
constexpr int AHEAD = 2;  // keys that a lane has asked for before it uses the first

// AHEAD rows, `apart` keys from each other; those from `count` on are zeros, and not read.
template <int LANES, typename T, int SIZE, int PACKS>
__device__ void load_rows(Pack<T, SIZE> (&packs)[AHEAD][PACKS], const T* from, long long page, long long key,
                          const int2* places, int first, int apart, int count, int lane, int D)
{
    for (int a = 0; a < AHEAD; ++a) {
        const int j = first + a * apart;
        const int2 at = j < count ? places[j] : int2{};
        const T* row = from + at.x * page + at.y * key;
        for (int c = 0; c < PACKS; ++c) {
            const int column = (lane + c * LANES) * SIZE;
            packs[a][c] = {};
            if (j < count && column < D) packs[a][c] = load_pack<SIZE>(row + column);
        }
    }
}

template <typename T, int SIZE, int WIDTH, int HEADS>
__global__ void __launch_bounds__(32 * WARPS, 4)
    decode_registers(const T* q, const T* k, const T* v, const int* lengths, const int* tables, float* values, float* parts,
                     long long k_page, long long k_key, long long k_head, long long v_page, long long v_key,
                     long long v_head, int H, int GROUP, int D, int columns, int many, int size, float scale)
{
    constexpr int LANES = WIDTH / SIZE < 32 ? WIDTH / SIZE : 32;  // of a key
    constexpr int PACKS = WIDTH / SIZE / LANES, EACH = PACKS * SIZE;  // of a lane
    constexpr int TOGETHER = 32 / LANES;  // keys of a warp, one beside the other
    __shared__ float sums_of[WARPS][HEADS][WIDTH];
    __shared__ __align__(16) float weights_of[WARPS][KEYS][HEADS];
    __shared__ Part parts_of[WARPS][HEADS];
    __shared__ int2 places_of[WARPS][KEYS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % LANES, beside = threadIdx.x % 32 / LANES;
    const int b = blockIdx.y / (H / GROUP), head = blockIdx.y % (H / GROUP);
    const int length = length_of(lengths, b, columns * size), share = keys_of_part(length, gridDim.x);
    const int begin = blockIdx.x * share, end = min(begin + share, length);
    if (begin >= end) return;  // whole blocks
    const Pages pages(tables, b, columns, many, size);
    const int heads = min(HEADS, GROUP - (int)blockIdx.z * HEADS);
    const long long query = (long long)b * H + head * GROUP + blockIdx.z * HEADS;
    float(*weights)[HEADS] = weights_of[warp];
    int2* places = places_of[warp];
    k += head * k_head;
    v += head * v_head;

    float queries[HEADS][EACH], sums[HEADS][EACH] = {};
    Part part[HEADS];
    for (int h = 0; h < HEADS; ++h)
        for (int i = 0; i < EACH; ++i) {
            const int d = (lane + i / SIZE * LANES) * SIZE + i % SIZE;
            queries[h][i] = h < heads && d < D ? (float)q[(query + h) * D + d] * scale : 0.0f;
        }

    for (int first = begin + warp * KEYS; first < end; first += WARPS * KEYS) {
        const int own = threadIdx.x % 32, count = min(KEYS, end - first);
        if (own < count) places[own] = pages.place(first + own);  // where a table is read, once for all lanes of a key
        __syncwarp();
        Pack<T, SIZE> packs[AHEAD][PACKS];
        for (int at = beside; at < KEYS; at += TOGETHER * AHEAD) {
            load_rows<LANES>(packs, k, k_page, k_key, places, at, TOGETHER, count, lane, D);
            for (int a = 0; a < AHEAD && at + a * TOGETHER < KEYS; ++a) {
                float scores[HEADS] = {};
                for (int c = 0; c < PACKS; ++c) {
                    const Floats<SIZE> key = widened<T, SIZE>(packs[a][c]);
                    for (int h = 0; h < HEADS; ++h)
                        for (int i = 0; i < SIZE; ++i) scores[h] += queries[h][c * SIZE + i] * key.at[i];
                }
                for (int h = 0; h < HEADS; ++h) scores[h] = warp_sum<LANES>(scores[h]);
                for (int h = 0; h < HEADS; ++h)
                    if (lane == 0) weights[at + a * TOGETHER][h] = scores[h];
            }
        }
        __syncwarp();
        for (int h = 0; h < HEADS; ++h) {
            const float s = own < count ? weights[own][h] : LOWEST;
            const float largest = fmaxf(part[h].largest, warp_max(s)), fade = exp_for<T>(part[h].largest - largest);
            const float weight = own < count ? exp_for<T>(s - largest) : 0.0f;
            part[h] = {largest, part[h].sum * fade + warp_sum(weight)};
            weights[own][h] = weight;
            for (int i = 0; i < EACH; ++i) sums[h][i] *= fade;
        }
        __syncwarp();
        for (int at = beside; at < KEYS; at += TOGETHER * AHEAD) {
            load_rows<LANES>(packs, v, v_page, v_key, places, at, TOGETHER, count, lane, D);
            for (int a = 0; a < AHEAD && at + a * TOGETHER < KEYS; ++a)
                for (int c = 0; c < PACKS; ++c) {
                    const Floats<SIZE> value = widened<T, SIZE>(packs[a][c]);
                    for (int h = 0; h < HEADS; ++h) {
                        const float weight = weights[at + a * TOGETHER][h];
                        for (int i = 0; i < SIZE; ++i) sums[h][c * SIZE + i] += weight * value.at[i];
                    }
                }
        }
        __syncwarp();  // before the weights are overwritten
    }

    for (int h = 0; h < HEADS; ++h) {
        for (int i = 0; i < EACH; ++i) {
            float sum = sums[h][i];
            for (int apart = LANES; apart < 32; apart *= 2) sum += __shfl_xor_sync(0xffffffff, sum, apart);
            if (beside == 0) sums_of[warp][h][(lane + i / SIZE * LANES) * SIZE + i % SIZE] = sum;
        }
        if (threadIdx.x % 32 == 0) parts_of[warp][h] = part[h];
    }
    leave_part<WIDTH>(values, parts, sums_of, parts_of, query, heads, D);
}
