// Level 5: decoding on tensor cores, with no key or value in shared memory. A block has a part of a sequence's keys, as in
// decode_registers, and a warp TILES tiles of 16 of them at a time, for up to eight query heads of a group. The rows of a
// product are 16 keys, or 16 features of their values, and its columns the heads. A lane multiplies 16 bytes of a row as they
// come from memory: there they stand for other features than in a matrix written out, but in both factors for the same.
//
// Before a warp waits for a tile, it has asked for keys and values; when it has multiplied the ones or the others, it asks for
// the next: before that its registers have no room. No warp waits for another until the end.
//
// q is B×H×D, contiguous. Rows of the cache are whole vectors of 16 bytes. T is __half or __nv_bfloat16, WIDTH is D rounded up
// to a multiple of 64. The rest is as in decode.cu, whose decode_join makes one of the parts.

#include "decode.cuh"
#include "mma.cuh"

constexpr int HEADS = 8, TILE = 16;  // columns and rows of a product

// 16 bytes of the row at `from + row`. Behind its end, and where there is none, at -1, nothing is read, and they are zeros.
template <typename T>
__device__ uint4 load_vector(const T* from, long long row, int column, int D)
{
    return row >= 0 && column < D ? *(const uint4*)(from + row + column) : uint4{};
}

// A lane's vectors of keys g and g + 8 of each tile: of each 32 features those from 8t on. Lane j knows the row of key j.
template <int TILES, int CHUNKS, typename T>
__device__ void load_keys(uint4 (&keys)[TILES][CHUNKS][2], const T* k, long long row, int D)
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    for (int i = 0; i < 2 * TILES; ++i) {
        const long long key = __shfl_sync(0xffffffff, row, 8 * i + g);
        for (int c = 0; c < CHUNKS; ++c) keys[i / 2][c][i % 2] = load_vector(k, key, 32 * c + 8 * t, D);
    }
}

// And of the values of keys 2t, 2t + 1, 2t + 8 and 2t + 9: of each 64 features those from 8g on.
template <int TILES, int CHUNKS, typename T>
__device__ void load_values(uint4 (&values)[TILES][CHUNKS][4], const T* v, long long row, int D)
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    for (int i = 0; i < 4 * TILES; ++i) {
        const long long value = __shfl_sync(0xffffffff, row, i / 2 * 8 + 2 * t + i % 2);
        for (int c = 0; c < CHUNKS; ++c) values[i / 4][c][i % 4] = load_vector(v, value, 64 * c + 8 * g, D);
    }
}

// A lane's scores of a tile are those of key g and heads 2t and 2t + 1, then those of key g + 8.
template <typename T, int TILES, int CHUNKS, int LENGTH>
__device__ void multiply_keys(float (&scores)[TILES][4], const uint4 (&keys)[TILES][CHUNKS][2],
                              const T (&queries)[HEADS][LENGTH])
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    for (int c = 0; c < CHUNKS; ++c) {
        const uint4 query = *(const uint4*)&queries[g][32 * c + 8 * t];
        for (int i = 0; i < TILES; ++i) {
            const uint4 upper = keys[i][c][0], lower = keys[i][c][1];
            multiply_add<T>(scores[i], {upper.x, lower.x, upper.y, lower.y}, {query.x, query.y});
            multiply_add<T>(scores[i], {upper.z, lower.z, upper.w, lower.w}, {query.z, query.w});
        }
    }
}

// Rows g and g + 8 of the product 4c + w are features 64c + 8g + 2w and the next, and its columns heads. The two features are a
// word of each key's value; two keys' words, taken apart, make a word of two keys for either feature.
template <typename T, int TILES, int CHUNKS>
__device__ void multiply_values(float (&sums)[4 * CHUNKS][4], const uint4 (&values)[TILES][CHUNKS][4],
                                const unsigned (&weights)[TILES][2])
{
    for (int i = 0; i < TILES; ++i)
        for (int c = 0; c < CHUNKS; ++c)
            for (int w = 0; w < 4; ++w) {
                unsigned words[4];
                for (int key = 0; key < 4; ++key) words[key] = ((const unsigned*)&values[i][c][key])[w];
                multiply_add<T>(sums[4 * c + w],
                                {__byte_perm(words[0], words[1], 0x5410), __byte_perm(words[0], words[1], 0x7632),
                                 __byte_perm(words[2], words[3], 0x5410), __byte_perm(words[2], words[3], 0x7632)},
                                weights[i]);
            }
}

template <typename T, int WIDTH, int WARPS, int TILES, int BLOCKS>
__global__ void __launch_bounds__(32 * WARPS, BLOCKS)
    decode_tensor_cores(const T* q, const T* k, const T* v, const int* lengths, const int* tables, float* values, float* parts,
                        long long k_page, long long k_key, long long k_head, long long v_page, long long v_key,
                        long long v_head, int H, int GROUP, int D, int columns, int many, int size, float scale)
{
    constexpr int TOGETHER = TILES * TILE, APART = WARPS * TOGETHER;  // keys of a warp; from its turn to the next
    static_assert(TOGETHER <= 32, "a lane looks up one key");
    __shared__ __align__(16) T queries[HEADS][WIDTH + 32];  // each row begins half way around the banks from the one before
    __shared__ __align__(8) float sums_of[WARPS][HEADS][WIDTH + 2];  // and these in other banks
    __shared__ Part parts_of[WARPS][HEADS];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int b = blockIdx.y / (H / GROUP), head = blockIdx.y % (H / GROUP);
    const int length = length_of(lengths, b, columns * size), share = keys_of_part(length, gridDim.x);
    const int begin = blockIdx.x * share, end = min(begin + share, length);
    if (begin >= end) return;  // whole blocks
    const Pages pages(tables, b, columns, many, size);
    const int heads = min(HEADS, GROUP - (int)blockIdx.z * HEADS);
    const int query = b * H + head * GROUP + blockIdx.z * HEADS;
    k += head * k_head;
    v += head * v_head;

    // A lane knows where one key of each turn is. The table is asked a turn ahead: its answer has come when it is used. A page
    // out of range is not read, and named at the end: a call that fails, within the loop, would take registers from it.
    int page = b, place;
    bool outside = false;
    auto look_up = [&](int key) {
        place = key;
        if (pages.table && key < end) page = pages.table[key / size], place = key % size;
    };
    auto row = [&](int key, long long page_stride, long long key_stride) {
        const bool there = key < end && pages.has(page);
        outside |= key < end && !there;
        return there ? page * page_stride + place * key_stride : -1;
    };
    uint4 keys[TILES][WIDTH / 32][2], of_keys[TILES][WIDTH / 64][4];  // what is on its way, of a turn
    const int own = begin + warp * TOGETHER + lane % TOGETHER;
    look_up(own);
    __syncthreads();  // or the compiler is not sure that all lanes are here
    load_keys(keys, k, row(own, k_page, k_key), D);
    load_values(of_keys, v, row(own, v_page, v_key), D);
    look_up(own + APART);
#pragma unroll
    for (int i = 0; i < HEADS * WIDTH; i += 32 * WARPS) {
        const int h = (i + threadIdx.x) / WIDTH, d = (i + threadIdx.x) % WIDTH;
        queries[h][d] = h < heads && d < D ? q[(long long)(query + h) * D + d] : (T)0.0f;
    }
    __syncthreads();

    float sums[WIDTH / 16][4] = {};
    Part part[2];  // of heads 2t and 2t + 1; the sum is over this lane's keys
    for (int first = begin + warp * TOGETHER; first < end; first += APART) {
        float scores[TILES][4] = {};
        multiply_keys(scores, keys, queries);
        bool larger = false;
        for (int i = 0; i < 4 * TILES; ++i) {
            float& score = scores[i / 4][i % 4];
            score = first + i / 2 * 8 + g < end ? score * scale : LOWEST;
            larger |= score > part[i % 2].largest;
        }
        if (__any_sync(0xffffffff, larger))  // soon it is rare
            for (int h = 0; h < 2; ++h) {
                float largest = part[h].largest;
                for (int i = 0; i < 2 * TILES; ++i) largest = fmaxf(largest, scores[i / 2][i % 2 * 2 + h]);
                for (int apart = 4; apart < 32; apart *= 2)
                    largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, apart));
                const float fade = exp_for<T>(part[h].largest - largest);
                part[h] = {largest, part[h].sum * fade};
                for (auto& tile : sums) tile[h] *= fade, tile[h + 2] *= fade;
            }
        const int next = first + APART + lane % TOGETHER;
        load_keys(keys, k, row(next, k_page, k_key), D);
        for (int i = 0; i < 4 * TILES; ++i) {
            float& score = scores[i / 4][i % 4];
            score = first + i / 2 * 8 + g < end ? exp_for<T>(score - part[i % 2].largest) : 0.0f;
            part[i % 2].sum += score;
        }
        unsigned weights[TILES][2];
        for (int i = 0; i < 2 * TILES; ++i) {
            typename PairOf<T>::type pair;
            from_float2(pair, {scores[i / 2][i % 2 * 2], scores[i / 2][i % 2 * 2 + 1]});
            weights[i / 2][i % 2] = transposed(*(unsigned*)&pair);
        }
        multiply_values<T>(sums, of_keys, weights);
        const long long of_key = row(next, v_page, v_key);
        look_up(next + APART);  // its branch keeps the loads behind it where the values before have left their registers
        load_values(of_keys, v, of_key, D);
        __syncwarp();  // or the compiler keeps the queries in registers, too
    }
    assert(!outside && "table");

    for (int h = 0; h < 2; ++h) {
        for (int i = 0; i < WIDTH / 16; ++i)
            *(float2*)&sums_of[warp][2 * t + h][i / 4 * 64 + 8 * g + i % 4 * 2] = {sums[i][h], sums[i][h + 2]};
        for (int apart = 4; apart < 32; apart *= 2) part[h].sum += __shfl_xor_sync(0xffffffff, part[h].sum, apart);
        if (g == 0) parts_of[warp][2 * t + h] = part[h];
    }
    leave_part<WIDTH>(values, parts, sums_of, parts_of, query, heads, D);
}
