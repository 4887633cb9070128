// Four neighbouring lanes, which have four values each, as tensor cores leave them.
#pragma once

// The value `q` of lane l becomes the value l of lane q, of each four lanes.
__device__ inline void transpose_quad(unsigned (&values)[4])
{
    const int lane = threadIdx.x;
#pragma unroll
    for (int bit = 1; bit <= 2; bit *= 2) {
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            if (q & bit) continue;
            const bool upper = lane & bit;
            const unsigned received = __shfl_xor_sync(0xffffffff, upper ? values[q] : values[q | bit], bit);
            values[q] = upper ? received : values[q];
            values[q | bit] = upper ? values[q | bit] : received;
        }
    }
}
