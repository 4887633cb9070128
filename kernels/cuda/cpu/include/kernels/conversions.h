// Reinterpretations, and conversions with the rounding that their suffix names (CUDA Math API, "Type Casting Intrinsics").
#pragma once

inline int __float_as_int(float x) { return kernels::bits<int>(x); }
inline unsigned __float_as_uint(float x) { return kernels::bits<unsigned>(x); }
inline float __int_as_float(int x) { return kernels::bits<float>(x); }
inline float __uint_as_float(unsigned x) { return kernels::bits<float>(x); }
inline long long __double_as_longlong(double x) { return kernels::bits<long long>(x); }
inline double __longlong_as_double(long long x) { return kernels::bits<double>(x); }
inline int __double2hiint(double x) { return int(kernels::bits<long long>(x) >> 32); }
inline int __double2loint(double x) { return int(kernels::bits<long long>(x)); }
inline double __hiloint2double(int high, int low) {
    return kernels::bits<double>((unsigned long long)unsigned(high) << 32 | unsigned(low));
}

namespace kernels {

// CUDA's float-to-integer conversions saturate and take NaN to 0 (to the lowest value for 64 bits).
template <class Integer>
inline Integer saturate(double x) {
    constexpr bool is_signed = std::is_signed<Integer>::value;
    constexpr int bits = sizeof(Integer) * 8 - is_signed;
    constexpr Integer most = Integer(~0ull >> (64 - bits)), least = is_signed ? -most - 1 : 0;
    if (x != x) return sizeof(Integer) == 8 ? Integer(1ull << 63) : 0;
    if (x >= ldexp(1.0, bits)) return most;
    if (x <= double(least)) return least;
    return Integer(x);
}

// An integer of any size, exact in long double where 64 bits are not in double.
template <Round mode, class T, class Integer>
inline T from_integer(Integer x) {
    const T nearest = T(x);
    return adjusted<mode>(nearest, double((long double)x - (long double)nearest));
}

}  // namespace kernels

#define KERNELS_TO_INTEGERS(FROM, SUFFIX, INTEGRAL)                                                            \
    inline int __##FROM##2int_##SUFFIX(FROM x) { return kernels::saturate<int>(INTEGRAL(x)); }                 \
    inline unsigned __##FROM##2uint_##SUFFIX(FROM x) { return kernels::saturate<unsigned>(INTEGRAL(x)); }      \
    inline long long __##FROM##2ll_##SUFFIX(FROM x) { return kernels::saturate<long long>(INTEGRAL(x)); }      \
    inline unsigned long long __##FROM##2ull_##SUFFIX(FROM x) { return kernels::saturate<unsigned long long>(INTEGRAL(x)); }
#define KERNELS_CONVERSIONS(SUFFIX, MODE, INTEGRAL)                                                                    \
    KERNELS_TO_INTEGERS(float, SUFFIX, INTEGRAL)                                                                       \
    KERNELS_TO_INTEGERS(double, SUFFIX, INTEGRAL)                                                                      \
    inline float __int2float_##SUFFIX(int x) { return kernels::to_float<MODE>(x); }                                    \
    inline float __uint2float_##SUFFIX(unsigned x) { return kernels::to_float<MODE>(x); }                              \
    inline float __ll2float_##SUFFIX(long long x) { return kernels::from_integer<MODE, float>(x); }                    \
    inline float __ull2float_##SUFFIX(unsigned long long x) { return kernels::from_integer<MODE, float>(x); }          \
    inline double __ll2double_##SUFFIX(long long x) { return kernels::from_integer<MODE, double>(x); }                 \
    inline double __ull2double_##SUFFIX(unsigned long long x) { return kernels::from_integer<MODE, double>(x); }       \
    inline float __double2float_##SUFFIX(double x) { return kernels::to_float<MODE>(x); }

KERNELS_CONVERSIONS(rn, kernels::Round::nearest, rint)
KERNELS_CONVERSIONS(rz, kernels::Round::zero, trunc)
KERNELS_CONVERSIONS(rd, kernels::Round::down, floor)
KERNELS_CONVERSIONS(ru, kernels::Round::up, ceil)
#undef KERNELS_CONVERSIONS
#undef KERNELS_TO_INTEGERS

inline double __int2double_rn(int x) { return x; }
inline double __uint2double_rn(unsigned x) { return x; }
