// The functions of half and bfloat16 that NVIDIA's headers have for a GPU alone, for one type and its pair.
#pragma once

namespace kernels {

// a*b + c of 16-bit types with a single rounding: the product is exact in double, and the sum is rounded to odd, so that
// rounding it once more, to fewer bits, is right.
inline double fused(double a, double b, double c) {
    const double product = a * b, sum = product + c, part = sum - product;
    const double error = (product - (sum - part)) + (c - part);
    uint64_t bits = kernels::bits<uint64_t>(sum);
    if (error != 0 && error == error && !(bits & 1)) bits += (error > 0) == (sum > 0) ? 1 : -1;
    return kernels::bits<double>(bits);
}

}  // namespace kernels

#define KERNELS_HALF_UNARY(T, T2, NAME, VALUE)      \
    inline T h##NAME(const T value) {               \
        const float x = float(value);               \
        return T(float(VALUE));                     \
    }                                               \
    inline T2 h2##NAME(const T2 pair) { return T2(h##NAME(pair.x), h##NAME(pair.y)); }

#define KERNELS_HALF_FUNCTIONS(T, T2, FROM_DOUBLE)                                                                  \
    KERNELS_HALF_UNARY(T, T2, exp, expf(x))                                                                         \
    KERNELS_HALF_UNARY(T, T2, exp2, exp2f(x))                                                                       \
    KERNELS_HALF_UNARY(T, T2, exp10, powf(10.0f, x))                                                                \
    KERNELS_HALF_UNARY(T, T2, log, logf(x))                                                                         \
    KERNELS_HALF_UNARY(T, T2, log2, log2f(x))                                                                       \
    KERNELS_HALF_UNARY(T, T2, log10, log10f(x))                                                                     \
    KERNELS_HALF_UNARY(T, T2, sqrt, sqrtf(x))                                                                       \
    KERNELS_HALF_UNARY(T, T2, rsqrt, 1.0 / sqrt(double(x)))                                                         \
    KERNELS_HALF_UNARY(T, T2, rcp, 1.0f / x)                                                                        \
    KERNELS_HALF_UNARY(T, T2, sin, sinf(x))                                                                         \
    KERNELS_HALF_UNARY(T, T2, cos, cosf(x))                                                                         \
    KERNELS_HALF_UNARY(T, T2, tanh, tanhf(x))                                                                       \
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
    inline T atomicAdd(T* const address, const T value) {                                                           \
        return kernels::atomic_update(address, [=](T old) { return old + value; });                                 \
    }                                                                                                               \
    inline T2 atomicAdd(T2* const address, const T2 value) {                                                        \
        return kernels::atomic_update(address, [=](T2 old) { return old + value; });                                \
    }
