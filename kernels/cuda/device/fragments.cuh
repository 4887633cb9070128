// Fragments of nvcuda::wmma from shared memory, for half types.
#pragma once

#include <cuda_bf16.h>
#include <mma.h>

// As wmma::load_matrix_sync, from shared memory, OFFSET elements behind `from`: loads that differ in it alone have one address.
template <int OFFSET = 0, typename Fragment, typename T>
__device__ void load_fragment(Fragment& fragment, const T* from, unsigned stride)
{
    nvcuda::wmma::load_matrix_sync(fragment, from + OFFSET, stride);
}

// Of that, NVRTC makes one ldmatrix for float16. For bfloat16 it forgets that it is shared memory: four loads of a word, and
// more to turn what is transposed. These say the same in PTX, with the address of shared memory, and ptxas makes one ldmatrix.
#if !defined(KERNELS_ON_CPU) && __CUDA_ARCH__ >= 800
#define LOAD_BFLOAT16(USE, LAYOUT, PTX)                                                                                        \
    template <int OFFSET = 0>                                                                                                  \
    __device__ inline void load_fragment(                                                                                      \
        nvcuda::wmma::fragment<nvcuda::wmma::USE, 16, 16, 16, __nv_bfloat16, nvcuda::wmma::LAYOUT>& fragment,                  \
        const __nv_bfloat16* from, unsigned stride)                                                                            \
    {                                                                                                                          \
        unsigned* to = (unsigned*)fragment.x;                                                                                  \
        asm volatile("wmma.load." PTX ".m16n16k16.shared.bf16 {%0, %1, %2, %3}, [%4 + %6], %5;"                                \
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])                                                      \
                     : "r"((unsigned)__cvta_generic_to_shared(from)), "r"(stride), "n"(2 * OFFSET)                             \
                     : "memory");                                                                                              \
    }
LOAD_BFLOAT16(matrix_a, row_major, "a.sync.aligned.row")
LOAD_BFLOAT16(matrix_a, col_major, "a.sync.aligned.col")
LOAD_BFLOAT16(matrix_b, row_major, "b.sync.aligned.row")
LOAD_BFLOAT16(matrix_b, col_major, "b.sync.aligned.col")
#undef LOAD_BFLOAT16
#endif

// Four of them, APART elements from each other.
template <int APART, typename Fragment, typename T>
__device__ void load_four(Fragment (&fragments)[4], const T* from, unsigned stride)
{
    load_fragment<0>(fragments[0], from, stride);
    load_fragment<APART>(fragments[1], from, stride);
    load_fragment<2 * APART>(fragments[2], from, stride);
    load_fragment<3 * APART>(fragments[3], from, stride);
}
