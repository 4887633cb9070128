// Loads with cache hints, bit operations, reinterpretations and conversions.
#pragma once

template <class T> inline T __ldg(const T* address) { return *address; }
template <class T> inline T __ldcs(const T* address) { return *address; }
template <class T> inline T __ldcg(const T* address) { return *address; }
template <class T> inline T __ldca(const T* address) { return *address; }
template <class T> inline void __stcs(T* address, T value) { *address = value; }
template <class T> inline void __stcg(T* address, T value) { *address = value; }

namespace kernels {
template <class To, class From>
inline To bits(From value) {
    static_assert(sizeof(To) == sizeof(From), "");
    To result;
    memcpy(&result, &value, sizeof(To));
    return result;
}
}  // namespace kernels

inline int __float_as_int(float x) { return kernels::bits<int>(x); }
inline unsigned __float_as_uint(float x) { return kernels::bits<unsigned>(x); }
inline float __int_as_float(int x) { return kernels::bits<float>(x); }
inline float __uint_as_float(unsigned x) { return kernels::bits<float>(x); }
inline long long __double_as_longlong(double x) { return kernels::bits<long long>(x); }
inline double __longlong_as_double(long long x) { return kernels::bits<double>(x); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
    unsigned result = 0;
    for (int bit = 0; bit < 32; ++bit) result |= (x >> bit & 1u) << (31 - bit);
    return result;
}
inline int __mul24(int a, int b) { return ((a << 8) >> 8) * ((b << 8) >> 8); }
inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }

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
}  // namespace kernels

inline int __float2int_rn(float x) { return kernels::saturate<int>(rint(x)); }
inline int __float2int_rz(float x) { return kernels::saturate<int>(trunc(x)); }
inline int __float2int_rd(float x) { return kernels::saturate<int>(floor(x)); }
inline int __float2int_ru(float x) { return kernels::saturate<int>(ceil(x)); }
inline unsigned __float2uint_rn(float x) { return kernels::saturate<unsigned>(rint(x)); }
inline unsigned __float2uint_rz(float x) { return kernels::saturate<unsigned>(trunc(x)); }
inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }
inline float __double2float_rn(double x) { return float(x); }
