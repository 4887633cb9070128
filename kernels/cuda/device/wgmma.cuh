// Matrix products of Hopper: a warpgroup of four warps multiplies tiles that lie in shared memory and adds to its registers,
// while it goes on with other things. Inline PTX: a GPU of target sm_90a alone runs it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// What the hardware is told of a tile of 16-bit elements whose lines of 128 bytes are swizzled: its address, the distance of
// eight lines from the next eight, 1,024 bytes, and `next`, that of the tile beside it, which counts where lines go along the
// dimension that is not summed.
__device__ inline unsigned long long described(const void* tile, int next)
{
    const unsigned long long address = (unsigned)__cvta_generic_to_shared(tile);
    return (address & 0x3FFFF) >> 4 | (unsigned long long)(next >> 4) << 16 | (1024ULL >> 4) << 32 | 1ULL << 62;
}

// Before the first product, and where other instructions have touched its registers.
__device__ inline void products_begin()
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// Makes one group of the products since the last.
__device__ inline void products_end()
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most so many groups are not done.
template <int GROUPS>
__device__ inline void wait_products()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(GROUPS) : "memory");
}

// Keeps what reads or writes these registers on its side of a product that is in flight, and of the wait for it.
template <int REGISTERS>
__device__ inline void settle(float (&registers)[REGISTERS])
{
#pragma unroll
    for (int r = 0; r < REGISTERS; ++r) asm volatile("" : "+f"(registers[r])::"memory");
}

template <int REGISTERS>
__device__ inline void settle(unsigned (&registers)[REGISTERS])
{
#pragma unroll
    for (int r = 0; r < REGISTERS; ++r) asm volatile("" : "+r"(registers[r])::"memory");
}

template <int REGISTERS>
__device__ inline void give_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

template <int REGISTERS>
__device__ inline void take_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// The text and the operands of an instruction with 32, 64 or 128 registers of sums: they are operands 0 and so on, then come a
// and b, whether it adds (or begins at 0), and whether the lines of a tile go along M or N.
#define TEN(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9, "
#define SIXTY TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5)
#define NAMES_32 TEN() TEN(1) TEN(2) "%30, %31"
#define NAMES_64 SIXTY "%60, %61, %62, %63"
#define NAMES_128 SIXTY TEN(6) TEN(7) TEN(8) TEN(9) TEN(10) TEN(11) "%120, %121, %122, %123, %124, %125, %126, %127"
#define FOUR(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)
#define OPERANDS_32 SIXTEEN(0), SIXTEEN(16)
#define OPERANDS_64 OPERANDS_32, SIXTEEN(32), SIXTEEN(48)
#define OPERANDS_128 OPERANDS_64, SIXTEEN(64), SIXTEEN(80), SIXTEEN(96), SIXTEEN(112)
#define PRODUCT(SHAPE, TYPE, SUMS, A, B, ADDS, LINES, ...)                                                                     \
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, " ADDS ", 0;\n\t"                                                 \
                 "wgmma.mma_async.sync.aligned." SHAPE "k16.f32." TYPE "." TYPE " {" NAMES_##SUMS "}, " A ", " B               \
                 ", adds, 1, 1, " LINES ";\n\t}"                                                                               \
                 : OPERANDS_##SUMS                                                                                             \
                 : __VA_ARGS__)
#define OF_EITHER_TYPE(SHAPE, ...)                                                                                             \
    if constexpr (IS_BFLOAT16<T>)                                                                                              \
        PRODUCT(SHAPE, "bf16", __VA_ARGS__);                                                                                   \
    else                                                                                                                       \
        PRODUCT(SHAPE, "f16", __VA_ARGS__);

template <typename T> constexpr bool IS_BFLOAT16 = false;
template <> constexpr bool IS_BFLOAT16<__nv_bfloat16> = true;

// sums = a @ b, or sums + a @ b, for 64×16 elements of a and 16 by 2·SUMS of b. A_T, B_T: the lines of a go along M, of b along
// N, and not along the dimension that is summed. A thread's sums of row r = 16·warp + lane / 4 are, for every eight columns, two
// from column 2·(lane % 4), then the two below them in row r + 8.
template <typename T, bool A_T, bool B_T, int SUMS>
__device__ inline void multiply_add(float (&sums)[SUMS], unsigned long long a, unsigned long long b, int adds)
{
    static_assert(SUMS == 32 || SUMS == 64 || SUMS == 128, "64, 128 or 256 columns");
#define DESCRIBED "l"(a), "l"(b), "r"(adds), "n"(A_T), "n"(B_T)
    if constexpr (SUMS == 32) {
        OF_EITHER_TYPE("m64n64", 32, "%32", "%33", "%34", "%35, %36", DESCRIBED)
    } else if constexpr (SUMS == 64) {
        OF_EITHER_TYPE("m64n128", 64, "%64", "%65", "%66", "%67, %68", DESCRIBED)
    } else {
        OF_EITHER_TYPE("m64n256", 128, "%128", "%129", "%130", "%131, %132", DESCRIBED)
    }
#undef DESCRIBED
}

// The same with a in registers: of 16 columns a thread has those that it would have of sums, in pairs.
template <typename T, bool B_T, int SUMS>
__device__ inline void multiply_add(float (&sums)[SUMS], const unsigned* a, unsigned long long b, int adds)
{
    static_assert(SUMS == 32 || SUMS == 64 || SUMS == 128, "64, 128 or 256 columns");
#define GIVEN "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds), "n"(B_T)
    if constexpr (SUMS == 32) {
        OF_EITHER_TYPE("m64n64", 32, "{%32, %33, %34, %35}", "%36", "%37", "%38", GIVEN)
    } else if constexpr (SUMS == 64) {
        OF_EITHER_TYPE("m64n128", 64, "{%64, %65, %66, %67}", "%68", "%69", "%70", GIVEN)
    } else {
        OF_EITHER_TYPE("m64n256", 128, "{%128, %129, %130, %131}", "%132", "%133", "%134", GIVEN)
    }
#undef GIVEN
}

#undef TEN
#undef SIXTY
#undef NAMES_32
#undef NAMES_64
#undef NAMES_128
#undef FOUR
#undef SIXTEEN
#undef OPERANDS_32
#undef OPERANDS_64
#undef OPERANDS_128
#undef PRODUCT
#undef OF_EITHER_TYPE
