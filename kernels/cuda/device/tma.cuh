// The Tensor Memory Accelerator of Hopper: copies of tiles to shared memory that one thread asks for, and mbarriers, which
// count the bytes that have come. Inline PTX: a GPU alone runs it.
#pragma once

// What the driver makes of a matrix and a tile's shape (CUtensorMap), passed by value as a `const __grid_constant__` parameter.
struct alignas(64) TensorMap {
    unsigned long long opaque[16];
};

using Barrier = unsigned long long;

__device__ inline unsigned shared_address(const void* of)
{
    return (unsigned)__cvta_generic_to_shared(of);
}

// A phase of the barrier is over after so many arrivals, and when all bytes that were announced have come.
__device__ inline void begin(Barrier* barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Makes barriers visible to the copy engine, before __syncthreads() makes them so to the block.
__device__ inline void barriers_begun()
{
    asm volatile("fence.mbarrier_init.release.cluster;\n\tfence.proxy.async.shared::cta;" ::: "memory");
}

__device__ inline void arrive(Barrier* barrier)
{
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrives, and announces bytes that copies will bring in this phase.
__device__ inline void arrive_expecting(Barrier* barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

// Waits until the phase of that parity is over. Before the first phase ends, the one of parity 1 counts as over.
__device__ inline void wait(Barrier* barrier, int parity)
{
    unsigned over;
    do {
        asm volatile("{\n\t.reg .pred p;\n\t"
                     "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2;\n\t"
                     "selp.u32 %0, 1, 0, p;\n\t}"
                     : "=r"(over)
                     : "r"(shared_address(barrier)), "r"(parity)
                     : "memory");
    } while (!over);
}

__device__ inline void prefetch(const TensorMap& map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Starts to copy the tile whose first element is at `column` of line `line` of the matrix. Zeros stand for what is beyond it.
__device__ inline void fetch_tile(void* to, const TensorMap& map, int column, int line, Barrier* barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(shared_address(to)), "l"(&map), "r"(column), "r"(line), "r"(shared_address(barrier))
                 : "memory");
}

// The same of a tensor of four dimensions, columns first.
__device__ inline void fetch_tile(void* to, const TensorMap& map, int column, int line, int head, int batch, Barrier* barrier)
{
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(
            shared_address(to)),
        "l"(&map), "r"(column), "r"(line), "r"(head), "r"(batch), "r"(shared_address(barrier))
        : "memory");
}
