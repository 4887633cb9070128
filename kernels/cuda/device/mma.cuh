// Products of matrices of half types whose every element has its lane and its register, which nvcuda::wmma leaves open. So what
// one product gives can be a factor of the next, and what a lane has loaded is a factor as it is. Inline PTX, for sm_80 on;
// on a CPU the lanes give each other what they multiply.
//
// A lane is 4g + t, with t from 0 to 3. A word is two neighbouring elements.
#pragma once

#include "vectors.cuh"

// sums += a @ b, of 16×16 elements of a by 16×8 of b. A lane has
//     a[0], a[1]          of the rows g and g + 8, columns 2t and 2t + 1; a[2], a[3], of these, 2t + 8 and 2t + 9
//     b[0], b[1]          of column g, rows 2t and 2t + 1; 2t + 8 and 2t + 9
//     sums[0] to sums[3]  of row g, columns 2t and 2t + 1; of row g + 8 the same
#ifdef KERNELS_ON_CPU
template <typename T>
__device__ void multiply_add(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    for (int from = 0; from < 4; ++from) {  // those lanes of a row or a column
        for (int half = 0; half < 2; ++half) {
            float2 row[2], column[2];
            for (int i = 0; i < 2; ++i) {
                const unsigned words[2] = {__shfl_sync(0xffffffff, a[2 * half + i], 4 * g + from),
                                           __shfl_sync(0xffffffff, b[half], 4 * (2 * t + i) + from)};
                row[i] = to_float2(*(const typename PairOf<T>::type*)&words[0]);
                column[i] = to_float2(*(const typename PairOf<T>::type*)&words[1]);
            }
            for (int i = 0; i < 4; ++i)
                sums[i] += row[i / 2].x * column[i % 2].x + row[i / 2].y * column[i % 2].y;
        }
    }
}
#else
template <typename T>
__device__ void multiply_add(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]);

#define MULTIPLY_ADD(T, TYPE)                                                                                                  \
    template <>                                                                                                                \
    __device__ inline void multiply_add<T>(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2])                   \
    {                                                                                                                          \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "        \
                     "{%8, %9}, {%0, %1, %2, %3};"                                                                             \
                     : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])                                              \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                      \
    }
MULTIPLY_ADD(__half, "f16")
MULTIPLY_ADD(__nv_bfloat16, "bf16")
#undef MULTIPLY_ADD
#endif

// Of a word at row g and columns 2t and 2t + 1 of 8×8 elements, the word that has this place in the transpose.
__device__ inline unsigned transposed(unsigned word)
{
#ifdef KERNELS_ON_CPU
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const unsigned first = __shfl_sync(0xffffffff, word, 4 * (2 * t) + g / 2);
    const unsigned second = __shfl_sync(0xffffffff, word, 4 * (2 * t + 1) + g / 2);
    return __byte_perm(first, second, g % 2 ? 0x7632 : 0x5410);
#else
    unsigned turned;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(word));
    return turned;
#endif
}
