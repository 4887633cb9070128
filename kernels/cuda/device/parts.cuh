// What the threads of a row know of parts of it, and how that is joined.
#pragma once

#include "reductions.cuh"

// The lowest finite float. A largest value starts from it and not from -inf, since -inf - -inf is NaN.
constexpr float LOWEST = -3.402823466e38f;

// exp for results of type T: float32 shows the error of the fast approximation, the half types do not.
template <typename T>
__device__ float exp_for(float x)
{
    return sizeof(T) == 4 ? expf(x) : __expf(x);
}

// Of some columns: the largest value, and the sum of exp(x - largest).
struct alignas(8) Part {  // aligned, so that it is read and written as one
    float largest = LOWEST, sum = 0.0f;
};

// The parts of WIDTH neighbouring lanes as one, given to each of them. All sums are scaled to the largest value of all before
// they are added.
template <int WIDTH = 32>
__device__ Part joined(Part part)
{
    float largest = warp_max<WIDTH>(part.largest);
    return {largest, warp_sum<WIDTH>(part.sum * expf(part.largest - largest))};
}
