// Level 5, forward, for Hopper GPUs, of half types, by TMA and wgmma: what FlashAttention-3 does (Shah et al. 2024).
//
// A block is three warpgroups. One thread of the first, the producer, asks TMA for tiles: of the queries, which stay, and of keys
// and values, which come into a ring of SLOTS tiles in the order in which they are used, K K V K V … V, from the last that are
// seen to the first. The other two, the consumers, have 64 queries each. While the tensor cores multiply weights of some keys
// with their values, a consumer has the next keys' scores already and computes their weights. That the two take turns to hand
// products to the tensor cores, as there, was tried and is not faster here (book/results/tried/attention_turns.json).
//
// Weights never leave registers: where wgmma leaves scores is where it takes a factor from. Lines of 64 features, 128 bytes, are
// swizzled by TMA: a tile of keys is WIDTH / 64 parts of KEYS lines.

#include "attention_softmax.cuh"
#include "attention_walk.cuh"
#include "quads.cuh"
#include "tma.cuh"
#include "wgmma.cuh"

constexpr int LINE = 64, WARPGROUP = 128, CONSUMERS = 2;

// The slot of the ring that is next, and the parity of its barriers' phase.
template <int SLOTS>
struct Turn {
    int slot = 0, parity = 0;

    __device__ void advance()
    {
        if (++slot == SLOTS) slot = 0, parity ^= 1;
    }
};

template <typename T, int WIDTH, int KEYS, int SLOTS>
__global__ void __launch_bounds__((CONSUMERS + 1) * WARPGROUP, 1)
    attention_wgmma(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k, const __grid_constant__ TensorMap v,
                    T* y, float* lse, Softmax* state, int heads, int H, int GROUP, int Q, int KV, int left, int right, int D,
                    float scale)
{
    const Sizes n{H, GROUP, Q, KV, left, right, D};
    constexpr int PARTS = WIDTH / LINE, TILE = KEYS * WIDTH, QUERIES_SIZE = QUERIES * WIDTH;
    extern __shared__ uint4 shared[];
    __shared__ Barrier full[SLOTS], empty[SLOTS], queries_full, queries_empty;
    // The swizzle goes by addresses: tiles begin at multiples of eight lines.
    T* queries = (T*)((char*)shared + (1024 - shared_address(shared) % 1024) % 1024);
    T* ring = queries + QUERIES_SIZE;

    if (threadIdx.x == 0) {
        for (int slot = 0; slot < SLOTS; ++slot) {
            begin(&full[slot], 1);
            begin(&empty[slot], CONSUMERS * WARPGROUP / 32);
        }
        begin(&queries_full, 1);
        begin(&queries_empty, CONSUMERS * WARPGROUP / 32);
        barriers_begun();
    }
    __syncthreads();

    Turn<SLOTS> turn;
    int parity = 0;  // of the barriers of queries
    Walk walk(heads, Q, right < Q);

    if (threadIdx.x < WARPGROUP) {
        give_registers<24>();
        if (threadIdx.x) return;
        prefetch(q);
        prefetch(k);
        prefetch(v);
        for (; !walk.at_end(); walk.advance()) {
            const Seen<KEYS> seen(n, walk.tile * QUERIES);
            if (!seen.count()) continue;
            const int b = walk.head() / H, h = walk.head() % H;
            wait(&queries_empty, parity ^ 1);
            arrive_expecting(&queries_full, QUERIES_SIZE * sizeof(T));
            for (int part = 0; part < PARTS; ++part)
                fetch_tile(queries + part * QUERIES * LINE, q, part * LINE, walk.tile * QUERIES, h, b, &queries_full);
            parity ^= 1;
            auto fetch = [&](const TensorMap& map, int tile) {
                wait(&empty[turn.slot], turn.parity ^ 1);
                arrive_expecting(&full[turn.slot], TILE * sizeof(T));
                for (int part = 0; part < PARTS; ++part)
                    fetch_tile(ring + turn.slot * TILE + part * KEYS * LINE, map, part * LINE, tile * KEYS, h / GROUP, b,
                               &full[turn.slot]);
                turn.advance();
            };
            fetch(k, seen.end - 1);
            for (int tile = seen.end - 1; tile >= seen.first; --tile) {
                if (tile > seen.first) fetch(k, tile - 1);
                fetch(v, tile);
            }
        }
        return;
    }

    take_registers<240>();
    const int consumer = threadIdx.x / WARPGROUP - 1, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const float scale_of_2 = scale * 1.4426950408889634f;
    const auto queries_descriptor = described(queries + consumer * 64 * LINE, 0);
    auto further = [](int elements) { return elements * sizeof(T) >> 4; };  // in a description, which counts by 16 bytes

    for (; !walk.at_end(); walk.advance()) {
        const int begin = walk.tile * QUERIES + consumer * 64, row = begin + 16 * warp + lane / 4;
        const Seen<KEYS> seen(n, walk.tile * QUERIES);
        float sums[WIDTH / 2], scores[KEYS / 2];
        unsigned weights[KEYS / 4];
        Rows rows;
#pragma unroll
        for (int c = 0; c < WIDTH / 2; ++c) sums[c] = 0.0f;

        auto arrive_at = [&](Barrier* barrier) {
            if (lane == 0) arrive(barrier);
        };
        auto start_scores = [&] {
            wait(&full[turn.slot], turn.parity);
            settle(scores);
            const auto keys_descriptor = described(ring + turn.slot * TILE, 0);
            products_begin();
#pragma unroll
            for (int d = 0; d < WIDTH; d += 16) {
                const int part = d / LINE, inside = d % LINE;
                multiply_add<T, false, false>(scores, queries_descriptor + further(part * QUERIES * LINE + inside),
                                              keys_descriptor + further(part * KEYS * LINE + inside), d > 0);
            }
            products_end();
        };
        auto start_sums = [&] {
            wait(&full[turn.slot], turn.parity);
            settle(sums);
            settle(weights);
            const auto values_descriptor = described(ring + turn.slot * TILE, KEYS * LINE * sizeof(T));
            products_begin();
#pragma unroll
            for (int c = 0; c < KEYS / 16; ++c)
                multiply_add<T, true>(sums, weights + 4 * c, values_descriptor + further(16 * c * LINE), true);
            products_end();
        };
        auto hide = [&](int tile) {  // what is not seen of the keys of a tile
            const int first = tile * KEYS, beyond = first + KEYS, place = KV - Q;
            const int last_of_least = begin + place + right, first_of_most = begin + 63 + place - left;
            const bool seen_by_least = beyond <= KV && beyond - 1 <= last_of_least;
            if (seen_by_least && first >= first_of_most) return;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int at = row + 8 * half + place, least = at - left, most = min(at + right, KV - 1);
#pragma unroll
                for (int c = 2 * half; c < KEYS / 2; c += 4)
                    for (int e = 0; e < 2; ++e) {
                        const int j = first + 2 * c + 2 * (lane % 4) - 4 * half + e;
                        scores[c + e] = (j < least) | (j > most) ? -INFINITE : scores[c + e];
                    }
            }
        };
        auto round_weights = [&] {
#pragma unroll
            for (int c = 0; c < KEYS / 4; ++c) weights[c] = rounded_pair<T>(scores[2 * c], scores[2 * c + 1]);
        };

        if (seen.count()) {
            wait(&queries_full, parity);
            parity ^= 1;
            start_scores();
            wait_products<0>();
            settle(scores);
            hide(seen.end - 1);
            rows.weigh(scores, scale_of_2);
            int slot = turn.slot;  // of what was multiplied last
            turn.advance();
            for (int tile = seen.end - 1;; --tile) {
                // Waiting begins an iteration: at the end of one, ptxas would move it before the weights.
                wait_products<0>();
                settle(sums);
                settle(weights);
                arrive_at(&empty[slot]);
#pragma unroll
                for (int c = 0; c < WIDTH / 2; ++c) sums[c] *= rows.fade[c / 2 % 2];
                round_weights();
                if (tile == seen.first) break;
                start_scores();
                const int keys_slot = turn.slot;
                turn.advance();
                start_sums();
                slot = turn.slot;
                turn.advance();
                wait_products<1>();
                settle(scores);
                arrive_at(&empty[keys_slot]);
                hide(tile - 1);
                rows.weigh(scores, scale_of_2);
            }
            arrive_at(&queries_empty);
            start_sums();
            wait_products<0>();
            settle(sums);
            arrive_at(&empty[turn.slot]);
            turn.advance();
        }

        const long long at = (long long)walk.head() * Q;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int i = row + 8 * half;
            const float sum = warp_sum<4>(rows.sum[half]), share = sum == 0.0f ? 0.0f : 1.0f / sum;
            const Part part = sum == 0.0f ? Part{} : Part{rows.largest[half], sum};
            if (lane % 4 == 0 && i < Q) finish(part, scale, lse, state, at + i);
#pragma unroll
            for (int c = 0; c < WIDTH / 32; ++c) {
                unsigned pairs[4];
#pragma unroll
                for (int g = 0; g < 4; ++g) {
                    const float* of = sums + 16 * c + 4 * g + 2 * half;
                    pairs[g] = rounded_pair<T>(of[0] * share, of[1] * share);
                }
                transpose_quad(pairs);  // a lane had two of each eight features, and has eight of one
                const int feature = 32 * c + 8 * (lane % 4);
                if (i < Q && feature < D)
                    *(uint4*)(y + (at + i) * D + feature) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
            }
        }
    }
}
