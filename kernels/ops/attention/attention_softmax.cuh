// The softmax of scores as wgmma leaves them in the registers of a warpgroup.
#pragma once

#include "reductions.cuh"
#include "wgmma.cuh"

constexpr float INFINITE = __builtin_bit_cast(float, 0x7F800000);

__device__ inline float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

template <typename T>
__device__ unsigned rounded_pair(float low, float high)
{
    if constexpr (IS_BFLOAT16<T>) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        return *(const unsigned*)&pair;
    } else {
        const __half2 pair = __floats2half2_rn(low, high);
        return *(const unsigned*)&pair;
    }
}

// Of the two rows of a thread: the largest score so far, and its own share of the sum of exp(scale · (score - largest)).
struct Rows {
    float largest[2] = {-INFINITE, -INFINITE}, sum[2] = {}, fade[2];

    // Turns scores into weights. By `fade`, what was added up with earlier weights becomes less.
    template <int SCORES>
    __device__ void weigh(float (&s)[SCORES], float scale_of_2)
    {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float tops[2] = {largest[half], -INFINITE};
#pragma unroll
            for (int c = 2 * half; c < SCORES; c += 4)
                for (int e = 0; e < 2; ++e) tops[e] = fmaxf(tops[e], s[c + e]);
            const float top = warp_max<4>(fmaxf(tops[0], tops[1]));
            // Of a row that has seen no key, -inf - -inf would be NaN. A large score's rounding, by `scale`, would be in its weight.
            const float shift = top == -INFINITE ? 0.0f : top;
            fade[half] = exp2_fast((largest[half] - shift) * scale_of_2);
            largest[half] = top;
            float sums[2] = {sum[half] * fade[half], 0.0f};
#pragma unroll
            for (int c = 2 * half; c < SCORES; c += 4)
                for (int e = 0; e < 2; ++e) sums[e] += s[c + e] = exp2_fast((s[c + e] - shift) * scale_of_2);
            sum[half] = sums[0] + sums[1];
        }
    }
};
