// NVIDIA's header computes bfloat16 on a host; these are the functions it has for a GPU alone.
#pragma once
#include "kernels/host_begin.h"
#include_next <cuda_bf16.h>
#include "kernels/host_end.h"
#include "kernels/half_functions.h"

KERNELS_HALF_FUNCTIONS(__nv_bfloat16, __nv_bfloat162, __double2bfloat16)
KERNELS_HALF_CONVERSIONS(__nv_bfloat16, bfloat16)

// From integers: rounding to float first, the same way, changes nothing.
#define KERNELS_BFLOAT16_FROM(SUFFIX)                                                                                 \
    inline __nv_bfloat16 __int2bfloat16_##SUFFIX(int x) { return __float2bfloat16_##SUFFIX(__int2float_##SUFFIX(x)); } \
    inline __nv_bfloat16 __uint2bfloat16_##SUFFIX(unsigned x) {                                                       \
        return __float2bfloat16_##SUFFIX(__uint2float_##SUFFIX(x));                                                   \
    }                                                                                                                 \
    inline __nv_bfloat16 __short2bfloat16_##SUFFIX(short x) { return __int2bfloat16_##SUFFIX(x); }                    \
    inline __nv_bfloat16 __ushort2bfloat16_##SUFFIX(unsigned short x) { return __int2bfloat16_##SUFFIX(x); }          \
    inline __nv_bfloat16 __ll2bfloat16_##SUFFIX(long long x) {                                                        \
        return __float2bfloat16_##SUFFIX(__ll2float_##SUFFIX(x));                                                     \
    }                                                                                                                 \
    inline __nv_bfloat16 __ull2bfloat16_##SUFFIX(unsigned long long x) {                                              \
        return __float2bfloat16_##SUFFIX(__ull2float_##SUFFIX(x));                                                    \
    }
KERNELS_BFLOAT16_FROM(rz)
KERNELS_BFLOAT16_FROM(rd)
KERNELS_BFLOAT16_FROM(ru)
#undef KERNELS_BFLOAT16_FROM
