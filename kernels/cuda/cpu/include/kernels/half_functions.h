// The functions of half and bfloat16 that NVIDIA's headers have for a GPU alone, for one type and its pair. They compute in
// float or double and round once.
#pragma once

#define KERNELS_HALF_UNARY(T, T2, NAME, VALUE)      \
    inline T h##NAME(const T value) {               \
        const float x = float(value);               \
        return T(float(VALUE));                     \
    }                                               \
    inline T2 h2##NAME(const T2 pair) { return T2(h##NAME(pair.x), h##NAME(pair.y)); }

#define KERNELS_HALF_FUNCTIONS(T, T2, FROM_DOUBLE)                                                                  \
    KERNELS_HALF_UNARY(T, T2, exp, expf(x))                                                                         \
    KERNELS_HALF_UNARY(T, T2, exp2, exp2f(x))                                                                       \
    KERNELS_HALF_UNARY(T, T2, exp10, exp10f(x))                                                                     \
    KERNELS_HALF_UNARY(T, T2, log, logf(x))                                                                         \
    KERNELS_HALF_UNARY(T, T2, log2, log2f(x))                                                                       \
    KERNELS_HALF_UNARY(T, T2, log10, log10f(x))                                                                     \
    KERNELS_HALF_UNARY(T, T2, sqrt, sqrtf(x))                                                                       \
    KERNELS_HALF_UNARY(T, T2, rsqrt, 1.0 / sqrt(double(x)))                                                         \
    KERNELS_HALF_UNARY(T, T2, rcp, 1.0f / x)                                                                        \
    KERNELS_HALF_UNARY(T, T2, sin, sinf(x))                                                                         \
    KERNELS_HALF_UNARY(T, T2, cos, cosf(x))                                                                         \
    KERNELS_HALF_UNARY(T, T2, tanh, tanhf(x))                                                                       \
    KERNELS_HALF_UNARY(T, T2, tanh_approx, tanhf(x))                                                                \
    KERNELS_HALF_UNARY(T, T2, ceil, ceilf(x))                                                                       \
    KERNELS_HALF_UNARY(T, T2, floor, floorf(x))                                                                     \
    KERNELS_HALF_UNARY(T, T2, rint, rintf(x))                                                                       \
    KERNELS_HALF_UNARY(T, T2, trunc, truncf(x))                                                                     \
    inline T __hfma(const T a, const T b, const T c) {                                                              \
        return FROM_DOUBLE(kernels::fused(float(a), float(b), float(c)));                                           \
    }                                                                                                               \
    inline T __hfma_relu(const T a, const T b, const T c) {                                                         \
        const T result = __hfma(a, b, c);                                                                           \
        return float(result) < 0.0f ? T(0.0f) : result;                                                             \
    }                                                                                                               \
    inline T __hfma_sat(const T a, const T b, const T c) { return T(__saturatef(float(__hfma(a, b, c)))); }         \
    inline T2 __hfma2(const T2 a, const T2 b, const T2 c) { return T2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); } \
    inline T2 __hfma2_sat(const T2 a, const T2 b, const T2 c) {                                                     \
        return T2(__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y));                                            \
    }                                                                                                               \
    inline T2 __hfma2_relu(const T2 a, const T2 b, const T2 c) {                                                    \
        return T2(__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y));                                          \
    }                                                                                                               \
    /* Complex multiply-add: real parts in x, imaginary in y. */                                                    \
    inline T2 __hcmadd(const T2 a, const T2 b, const T2 c) {                                                        \
        return T2(__hfma(__hneg(a.y), b.y, __hfma(a.x, b.x, c.x)), __hfma(a.y, b.x, __hfma(a.x, b.y, c.y)));        \
    }                                                                                                               \
    inline T atomicAdd(T* const address, const T value) {                                                           \
        return kernels::atomic_update(address, [=](T old) { return old + value; });                                 \
    }                                                                                                               \
    inline T2 atomicAdd(T2* const address, const T2 value) {                                                        \
        return kernels::atomic_update(address, [=](T2 old) { return old + value; });                                \
    }

// To integers, saturating; NVIDIA's headers have _rz for a host too.
#define KERNELS_HALF_TO_INTEGERS(T, NAME, SUFFIX, INTEGRAL)                                                           \
    inline short __##NAME##2short_##SUFFIX(const T x) { return kernels::saturate<short>(INTEGRAL(float(x))); }        \
    inline unsigned short __##NAME##2ushort_##SUFFIX(const T x) {                                                     \
        return kernels::saturate<unsigned short>(INTEGRAL(float(x)));                                                 \
    }                                                                                                                 \
    inline int __##NAME##2int_##SUFFIX(const T x) { return kernels::saturate<int>(INTEGRAL(float(x))); }              \
    inline unsigned __##NAME##2uint_##SUFFIX(const T x) { return kernels::saturate<unsigned>(INTEGRAL(float(x))); }   \
    inline long long __##NAME##2ll_##SUFFIX(const T x) { return kernels::saturate<long long>(INTEGRAL(float(x))); }   \
    inline unsigned long long __##NAME##2ull_##SUFFIX(const T x) {                                                    \
        return kernels::saturate<unsigned long long>(INTEGRAL(float(x)));                                             \
    }
#define KERNELS_HALF_CONVERSIONS(T, NAME)             \
    KERNELS_HALF_TO_INTEGERS(T, NAME, rn, rintf)      \
    KERNELS_HALF_TO_INTEGERS(T, NAME, rd, floorf)     \
    KERNELS_HALF_TO_INTEGERS(T, NAME, ru, ceilf)
