// Sums and largest values over a warp, and over the threads that share a row.
#pragma once

// The sum of `value` over each WIDTH neighbouring lanes, given to each of them.
template <int WIDTH = 32>
__device__ float warp_sum(float value)
{
    for (int apart = WIDTH / 2; apart > 0; apart /= 2) value += __shfl_xor_sync(0xffffffff, value, apart);
    return value;
}

// The largest `value`; NaN counts as none.
template <int WIDTH = 32>
__device__ float warp_max(float value)
{
    for (int apart = WIDTH / 2; apart > 0; apart /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, apart));
    return value;
}

// The sum of `value` over the blockDim.x threads that share a row, given to each: whole warps, or THREADS lanes of one, a power
// of two. A second reduction takes another `warp_parts`, so that no barrier is needed between reading the one and writing the
// other. A block of several rows has a warp for each, or for several of them, whose lanes must all come.
template <int THREADS = 32>
__device__ float row_sum(float value, float* warp_parts)
{
    value = warp_sum<(THREADS < 32 ? THREADS : 32)>(value);
    if (THREADS < 32 || blockDim.x == 32) return value;
    int lane = threadIdx.x % 32;
    if (lane == 0) warp_parts[threadIdx.x / 32] = value;
    __syncthreads();
    return warp_sum(lane < blockDim.x / 32 ? warp_parts[lane] : 0.0f);
}

// Two sums at once, for which threads wait for each other once.
template <int THREADS = 32>
__device__ float2 row_sum(float2 value, float2* warp_parts)
{
    constexpr int WIDTH = THREADS < 32 ? THREADS : 32;
    value = {warp_sum<WIDTH>(value.x), warp_sum<WIDTH>(value.y)};
    if (THREADS < 32 || blockDim.x == 32) return value;
    int lane = threadIdx.x % 32;
    if (lane == 0) warp_parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = lane < blockDim.x / 32 ? warp_parts[lane] : float2{};
    return {warp_sum(value.x), warp_sum(value.y)};
}

// The largest `value`, in the same way.
__device__ float row_max(float value, float* warp_parts)
{
    value = warp_max(value);
    if (blockDim.x == 32) return value;
    int lane = threadIdx.x % 32;
    if (lane == 0) warp_parts[threadIdx.x / 32] = value;
    __syncthreads();
    return warp_max(lane < blockDim.x / 32 ? warp_parts[lane] : value);
}

// What neighbouring lanes know of a row, as one, given to each of WIDTH of them: here, sums. Other kinds of it come with their
// own `joined`; a value-initialised one is that of no columns.
template <int WIDTH = 32>
__device__ float joined(float sum)
{
    return warp_sum<WIDTH>(sum);
}

// The parts of the blockDim.x threads of a row, whole warps, as one, given to each.
template <typename P>
__device__ P block_joined(P part, P* warp_parts)
{
    part = joined(part);
    int lane = threadIdx.x % 32;
    if (lane == 0) warp_parts[threadIdx.x / 32] = part;
    __syncthreads();
    return joined(lane < blockDim.x / 32 ? warp_parts[lane] : P{});
}

// 1 / standard deviation, from a variance that is a difference of sums: of values that are alike it may be a little below 0, and
// is 0 then. NaN stays.
__device__ float rstd_of(float variance, float eps)
{
    return rsqrtf((variance < 0.0f ? 0.0f : variance) + eps);
}
