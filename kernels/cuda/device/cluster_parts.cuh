// What the blocks of a cluster send each other: a value, of which the barrier of the block that it goes to counts the bytes.
//
// A barrier of the cluster instead would have each thread wait until all that it wrote, to whatever memory, is there for all to
// read. Inline PTX: a GPU alone runs it.
#pragma once

#include "tma.cuh"

// Puts `value` where the block of that rank has *to, and tells its *barrier.
template <typename T>
__device__ void send(T value, T* to, Barrier* barrier, int rank)
{
    static_assert(sizeof(T) == 16, "as four words");
    const uint4 words = *(uint4*)&value;
    asm volatile("{\n\t.reg .b32 there, counted;\n\t"
                 "mapa.shared::cluster.u32 there, %0, %2;\n\t"
                 "mapa.shared::cluster.u32 counted, %1, %2;\n\t"
                 "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [there], {%3, %4, %5, %6}, [counted];\n\t}"
                 ::"r"(shared_address(to)), "r"(shared_address(barrier)), "r"(rank), "r"(words.x), "r"(words.y), "r"(words.z),
                 "r"(words.w)
                 : "memory");
}
