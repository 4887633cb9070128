// A seed's order of blocks and threads.
#pragma once
#include <stdint.h>

namespace kernels {

inline uint64_t mixed(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

struct Random {
    uint64_t state;
    uint32_t below(uint32_t limit) { return uint32_t((mixed(state++) >> 32) * limit >> 32); }
};

// Where a seed's permutation of 0 … count-1 takes `index`: four rounds of a Feistel network over the next power of four,
// walked until it comes back into the range. There may be too many blocks to keep a table of them.
inline uint64_t permuted(uint64_t index, uint64_t count, uint64_t seed) {
    uint32_t half = 1;
    while (half < 32 && uint64_t(1) << 2 * half < count) ++half;
    const uint64_t mask = (uint64_t(1) << half) - 1;
    do {
        uint64_t left = index >> half, right = index & mask;
        for (uint64_t round = 0; round < 4; ++round) {
            const uint64_t next = left ^ (mixed(right ^ mixed(seed + round)) & mask);
            left = right, right = next;
        }
        index = left << half | right;
    } while (index >= count);
    return index;
}

}  // namespace kernels
