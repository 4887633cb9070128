// Arithmetic with the rounding that a function's suffix names: _rn to nearest even, _rz towards zero, _rd down, _ru up.
// The exact result is kept as the nearest one and the sign of its error, so the mode of the processor never changes.
#pragma once

namespace kernels {

enum class Round { nearest, zero, down, up };

// `nearest`, the exact value rounded to nearest, moved by one unit where the mode asks; `error` is exact - nearest.
template <Round mode, class T>
inline T adjusted(T nearest, double error) {
    const T infinity = T(__builtin_inf());
    const bool down = mode == Round::down || (mode == Round::zero && nearest > 0);
    if (mode == Round::nearest || !(error < 0 || error > 0)) return nearest;
    if (down) return error < 0 ? std::nextafter(nearest, -infinity) : nearest;
    return error > 0 && (mode == Round::up || nearest < 0) ? std::nextafter(nearest, infinity) : nearest;
}

// A double that rounds to any shorter type as `sum + error` does: with its last bit set where it is inexact.
inline double to_odd(double sum, double error) {
    uint64_t word = bits<uint64_t>(sum);
    if (error != 0 && error == error && !(word & 1)) word += (error > 0) == (sum > 0) ? 1 : -1;
    return bits<double>(word);
}
inline double sum_error(double a, double b, double sum) {
    const double part = sum - a;
    return (a - (sum - part)) + (b - part);
}
// a*b + c of values of at most 26 bits, such as float: their product is exact in double.
inline double fused(double a, double b, double c) {
    const double product = a * b, sum = product + c;
    return to_odd(sum, sum_error(product, c, sum));
}
inline double quotient(double a, double b) {
    const double result = a / b, rest = fma(-result, b, a);
    return to_odd(result, b < 0 ? -rest : rest);
}
inline double root(double x) {
    const double result = sqrt(x);
    return to_odd(result, fma(-result, result, x));
}

template <Round mode>
inline float to_float(double exact) {
    const float nearest = float(exact);
    return adjusted<mode>(nearest, exact - nearest);
}

// The error of a double's operation; one that is too big for a double was finite.
inline double overflow_or(double error, double result, double a, double b) {
    if (std::isinf(result)) return std::isfinite(a) && std::isfinite(b) ? -result : 0;
    return error;
}
template <Round mode>
inline double add(double a, double b) {
    const double sum = a + b;
    return adjusted<mode>(sum, overflow_or(sum_error(a, b, sum), sum, a, b));
}
template <Round mode>
inline double multiply(double a, double b) {
    const double product = a * b;
    return adjusted<mode>(product, overflow_or(fma(a, b, -product), product, a, b));
}
template <Round mode>
inline double divide(double a, double b) {
    const double result = a / b, rest = fma(-result, b, a);
    return adjusted<mode>(result, b < 0 ? -rest : rest);
}
template <Round mode>
inline double square_root(double x) {
    const double result = sqrt(x);
    return adjusted<mode>(result, fma(-result, result, x));
}
template <Round mode>
inline double multiply_add(double a, double b, double c) {
    const double result = fma(a, b, c);
    const double product = a * b, product_error = fma(a, b, -product);
    const double low = c + product_error, low_error = sum_error(c, product_error, low);
    const double high = product + low, high_error = sum_error(product, low, high);
    return adjusted<mode>(result, ((high - result) + high_error) + low_error);
}

}  // namespace kernels

#define KERNELS_ROUNDED(SUFFIX, MODE)                                                                              \
    inline float __fadd_##SUFFIX(float a, float b) { return kernels::to_float<MODE>(kernels::fused(a, 1, b)); }    \
    inline float __fsub_##SUFFIX(float a, float b) { return kernels::to_float<MODE>(kernels::fused(b, -1, a)); }   \
    inline float __fmul_##SUFFIX(float a, float b) { return kernels::to_float<MODE>(double(a) * b); }              \
    inline float __fmaf_##SUFFIX(float a, float b, float c) { return kernels::to_float<MODE>(kernels::fused(a, b, c)); } \
    inline float __fdiv_##SUFFIX(float a, float b) { return kernels::to_float<MODE>(kernels::quotient(a, b)); }    \
    inline float __frcp_##SUFFIX(float x) { return kernels::to_float<MODE>(kernels::quotient(1, x)); }             \
    inline float __fsqrt_##SUFFIX(float x) { return kernels::to_float<MODE>(kernels::root(x)); }                   \
    inline double __dadd_##SUFFIX(double a, double b) { return kernels::add<MODE>(a, b); }                         \
    inline double __dsub_##SUFFIX(double a, double b) { return kernels::add<MODE>(a, -b); }                        \
    inline double __dmul_##SUFFIX(double a, double b) { return kernels::multiply<MODE>(a, b); }                    \
    inline double __ddiv_##SUFFIX(double a, double b) { return kernels::divide<MODE>(a, b); }                      \
    inline double __drcp_##SUFFIX(double x) { return kernels::divide<MODE>(1, x); }                                \
    inline double __dsqrt_##SUFFIX(double x) { return kernels::square_root<MODE>(x); }                             \
    inline double __fma_##SUFFIX(double a, double b, double c) { return kernels::multiply_add<MODE>(a, b, c); }

KERNELS_ROUNDED(rz, kernels::Round::zero)
KERNELS_ROUNDED(rd, kernels::Round::down)
KERNELS_ROUNDED(ru, kernels::Round::up)
#undef KERNELS_ROUNDED

// To nearest is what the processor does.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __frsqrt_rn(float x) { return float(kernels::quotient(1, sqrt(double(x)))); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __drcp_rn(double x) { return 1.0 / x; }
inline double __dsqrt_rn(double x) { return sqrt(x); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
