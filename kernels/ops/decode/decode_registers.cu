// Level 5: decoding with nothing in shared memory until the end. A block has a part of a sequence's keys, as in decode_split, and
// a warp some of them at a time: neighbouring lanes read a key by packs of 16 bytes, and keep its features, those of every query
// head, and of the weighted sums. The product of a key with a query is a sum over its lanes. No thread waits for another until
// the lanes' sums, and then the warps', become those of the part.
//
// q is B×H×D, contiguous; a pack is SIZE features. The rest is as in decode.cu, whose decode_join makes one of the parts.

#include "decode.cuh"

constexpr int WARPS = 4;
constexpr int AHEAD = 2;  // keys that a lane has asked for before it uses the first

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
    __shared__ Part parts_of[WARPS][HEADS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % LANES, beside = threadIdx.x % 32 / LANES;
    const int b = blockIdx.y / (H / GROUP), head = blockIdx.y % (H / GROUP);
    const int length = length_of(lengths, b, columns * size), share = keys_of_part(length, gridDim.x);
    const int begin = blockIdx.x * share, end = min(begin + share, length);
    if (begin >= end) return;  // whole blocks
    const Pages pages(tables, b, columns, many, size);
    const int heads = min(HEADS, GROUP - (int)blockIdx.z * HEADS);
    const long long query = (long long)b * H + head * GROUP + blockIdx.z * HEADS;
    k += head * k_head;
    v += head * v_head;

    float queries[HEADS][EACH], sums[HEADS][EACH] = {};
    Part part[HEADS];
    for (int h = 0; h < HEADS; ++h)
        for (int i = 0; i < EACH; ++i) {
            const int d = (lane + i / SIZE * LANES) * SIZE + i % SIZE;
            queries[h][i] = h < heads && d < D ? (float)q[(query + h) * D + d] * scale : 0.0f;
        }

    for (int first = begin + warp * TOGETHER * AHEAD; first < end; first += WARPS * TOGETHER * AHEAD) {
        Pack<T, SIZE> keys[AHEAD][PACKS] = {}, come[AHEAD][PACKS] = {};
        for (int a = 0; a < AHEAD; ++a) {
            const int j = first + a * TOGETHER + beside;
            if (j >= end) continue;
            const T *key = k + pages.row(j, k_page, k_key), *value = v + pages.row(j, v_page, v_key);
            for (int c = 0; c < PACKS; ++c) {
                const int column = (lane + c * LANES) * SIZE;
                if (column >= D) continue;
                keys[a][c] = load_pack<SIZE>(key + column);
                come[a][c] = load_pack<SIZE>(value + column);
            }
        }
        float weights[HEADS][AHEAD];
        for (int a = 0; a < AHEAD; ++a) {
            for (int h = 0; h < HEADS; ++h) weights[h][a] = 0.0f;
            for (int c = 0; c < PACKS; ++c) {
                const Floats<SIZE> key = widened<T, SIZE>(keys[a][c]);
                for (int h = 0; h < HEADS; ++h)
                    for (int i = 0; i < SIZE; ++i) weights[h][a] += queries[h][c * SIZE + i] * key.at[i];
            }
            for (int h = 0; h < HEADS; ++h) weights[h][a] = warp_sum<LANES>(weights[h][a]);
        }
        for (int h = 0; h < HEADS; ++h) {
            float largest = part[h].largest, sum = 0.0f;
            for (int a = 0; a < AHEAD; ++a)
                if (first + a * TOGETHER + beside < end) largest = fmaxf(largest, weights[h][a]);
            const float fade = exp_for<T>(part[h].largest - largest);
            for (int a = 0; a < AHEAD; ++a) {
                const bool inside = first + a * TOGETHER + beside < end;
                weights[h][a] = inside ? exp_for<T>(weights[h][a] - largest) : 0.0f;
                sum += weights[h][a];
            }
            part[h] = {largest, part[h].sum * fade + sum};
            for (int i = 0; i < EACH; ++i) sums[h][i] *= fade;
        }
        for (int a = 0; a < AHEAD; ++a)
            for (int c = 0; c < PACKS; ++c) {
                const Floats<SIZE> value = widened<T, SIZE>(come[a][c]);
                for (int h = 0; h < HEADS; ++h)
                    for (int i = 0; i < SIZE; ++i) sums[h][c * SIZE + i] += weights[h][a] * value.at[i];
            }
    }

    for (int h = 0; h < HEADS; ++h) {
        float largest = part[h].largest;
        for (int apart = LANES; apart < 32; apart *= 2)
            largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, apart));
        const float fade = expf(part[h].largest - largest);
        float sum = part[h].sum * fade;
        for (int apart = LANES; apart < 32; apart *= 2) sum += __shfl_xor_sync(0xffffffff, sum, apart);
        for (int i = 0; i < EACH; ++i) {
            float of_lanes = sums[h][i] * fade;
            for (int apart = LANES; apart < 32; apart *= 2) of_lanes += __shfl_xor_sync(0xffffffff, of_lanes, apart);
            if (beside == 0) sums_of[warp][h][(lane + i / SIZE * LANES) * SIZE + i % SIZE] = of_lanes;
        }
        if (threadIdx.x % 32 == 0) parts_of[warp][h] = {largest, sum};
    }
    __syncthreads();
    for (int i = threadIdx.x; i < heads * WIDTH; i += blockDim.x) {
        const int h = i / WIDTH, d = i % WIDTH;
        const long long at = (query + h) * gridDim.x + blockIdx.x;
        Part whole;
        for (int w = 0; w < WARPS; ++w) whole.largest = fmaxf(whole.largest, parts_of[w][h].largest);
        float sum = 0.0f;
        for (int w = 0; w < WARPS; ++w) {
            const float fade = expf(parts_of[w][h].largest - whole.largest);
            whole.sum += fade * parts_of[w][h].sum;
            sum += fade * sums_of[w][h][d];
        }
        if (d < D) values[at * D + d] = sum;
        if (d == 0) parts[2 * at] = whole.largest;
        if (d == 0) parts[2 * at + 1] = whole.sum;
    }
}
