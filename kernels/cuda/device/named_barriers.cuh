// Barriers that some of a block's warps share, by number: 0 is that of __syncthreads(), 1 to 15 are free. Inline PTX: a GPU alone
// runs it.
#pragma once

// Waits until so many threads, whole warps, have come to the barrier, be it to wait there or not.
__device__ inline void wait_at(int barrier, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Is counted there, and goes on.
__device__ inline void pass(int barrier, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
