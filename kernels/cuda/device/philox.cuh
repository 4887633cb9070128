// Counter-based random numbers: a number is a function of a seed and of its offset, with no state between. Philox-4x32-10
// (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3"). The bits are those of
// kernels/random.py and of Triton's tl.rand.

#pragma once

// Four random words for a counter of four words and a key of two.
__device__ inline uint4 philox(uint4 counter, uint2 key) {
    for (int round = 0; round < 10; round++) {
        unsigned high0 = __umulhi(0xD2511F53u, counter.x), low0 = 0xD2511F53u * counter.x;
        unsigned high2 = __umulhi(0xCD9E8D57u, counter.z), low2 = 0xCD9E8D57u * counter.z;
        counter = make_uint4(high2 ^ counter.y ^ key.x, low2, high0 ^ counter.w ^ key.y, low0);
        key = make_uint2(key.x + 0x9E3779B9u, key.y + 0xBB67AE85u);
    }
    return counter;
}

// As Triton does it: a signed word, folded on its positive half, times the largest float that keeps it below 1.
__device__ inline float uniform_of(unsigned word) {
    return float(int(word) < 0 ? ~int(word) : int(word)) * 4.6566127342e-10f;
}

// The four words that the random numbers of an offset are made of.
__device__ inline uint4 words4(unsigned long long seed, unsigned long long offset) {
    uint4 counter = make_uint4(unsigned(offset), unsigned(offset >> 32), 0u, 0u);
    return philox(counter, make_uint2(unsigned(seed), unsigned(seed >> 32)));
}

// Four random numbers from the uniform distribution over [0, 1).
__device__ inline float4 uniform4(unsigned long long seed, unsigned long long offset) {
    uint4 words = words4(seed, offset);
    return make_float4(uniform_of(words.x), uniform_of(words.y), uniform_of(words.z), uniform_of(words.w));
}

// The first of them.
__device__ inline float uniform(unsigned long long seed, unsigned long long offset) { return uniform4(seed, offset).x; }
