// What the blocks of a cluster send each other: a value, of which the barrier of the block that it goes to counts the bytes.
//
// A barrier of the cluster instead would have each thread wait until all that it wrote, to whatever memory, is there for all to
// read. Inline PTX: a GPU alone runs it.
#pragma once

#include "cluster.cuh"
#include "tma.cuh"

// The address of what the block of that rank has where this block has *of.
__device__ inline unsigned address_there(const void* of, int rank)
{
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(of)), "r"(rank));
    return there;
}

// Puts `value` where the block of that rank has *to, and tells its *barrier.
template <typename T>
__device__ void send(T value, T* to, Barrier* barrier, int rank)
{
    static_assert(sizeof(T) == 8 || sizeof(T) == 16, "as two or four words");
    const unsigned there = address_there(to, rank), counted = address_there(barrier, rank);
    if constexpr (sizeof(T) == 8) {
        const uint2 words = *(uint2*)&value;
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], {%1, %2}, [%3];" ::"r"(there),
                     "r"(words.x), "r"(words.y), "r"(counted)
                     : "memory");
    } else {
        const uint4 words = *(uint4*)&value;
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];"
                     ::"r"(there), "r"(words.x), "r"(words.y), "r"(words.z), "r"(words.w), "r"(counted)
                     : "memory");
    }
}

// Makes the two barriers of this block that take turns ready for what other blocks send.
__device__ inline void begin_parts(Barrier* first, Barrier* second)
{
    if (threadIdx.x == 0) {
        begin(first, 1);
        begin(second, 1);
        barriers_begun();
    }
    cooperative_groups::this_cluster().sync();  // all blocks of it are there before one writes to another
}

// By each warp of the cluster, of which there are PARTS: its part goes to all blocks, into the place of `warp`. When a phase of
// a block's *arrived is over, all parts are there. Parts that come before the block's own thread announces their bytes end no
// phase: that waits for the thread.
template <typename P, int PARTS>
__device__ void give_part(P part, P (&parts)[PARTS], int warp, Barrier* arrived)
{
    const int lane = threadIdx.x % 32;
    if (threadIdx.x == 0) arrive_expecting(arrived, sizeof parts);
    if (lane < CLUSTER) send(part, &parts[warp], arrived, lane);
}
