// Two 16-bit or four 8-bit integers in a word (CUDA Math API, "SIMD Intrinsics").
#pragma once

namespace kernels {

// Applies f to corresponding parts of two words, as T; its results are cut to the size of a part.
template <class T, class F>
inline unsigned by_parts(unsigned a, unsigned b, F f) {
    constexpr int bits = sizeof(T) * 8;
    constexpr unsigned mask = ~0u >> (32 - bits);
    unsigned result = 0;
    for (int i = 0; i < 32; i += bits) result |= (unsigned(f(int(T(a >> i)), int(T(b >> i)))) & mask) << i;
    return result;
}

template <class T>
inline int clamped(int x) {
    constexpr int most = std::is_signed<T>::value ? (1 << (sizeof(T) * 8 - 1)) - 1 : (1 << sizeof(T) * 8) - 1;
    constexpr int least = std::is_signed<T>::value ? -most - 1 : 0;
    return x < least ? least : x > most ? most : x;
}

}  // namespace kernels

#define KERNELS_PARTS(NAME, T, VALUE) \
    inline unsigned NAME(unsigned x, unsigned y) { return kernels::by_parts<T>(x, y, [](int a, int b) { return VALUE; }); }
#define KERNELS_PARTS_OF_ONE(NAME, T, VALUE) \
    inline unsigned NAME(unsigned x) { return kernels::by_parts<T>(x, 0, [](int a, int) { return VALUE; }); }
#define KERNELS_PARTS_SUM(NAME, T)                                                                  \
    inline unsigned NAME(unsigned x, unsigned y) {                                                  \
        unsigned sum = 0;                                                                           \
        kernels::by_parts<T>(x, y, [&](int a, int b) { return sum += a > b ? a - b : b - a, 0; });  \
        return sum;                                                                                 \
    }
#define KERNELS_COMPARE(NAME, N, T, OPERATOR)                \
    KERNELS_PARTS(__vcmp##NAME##N, T, a OPERATOR b ? ~0 : 0) \
    KERNELS_PARTS(__vset##NAME##N, T, a OPERATOR b)

#define KERNELS_SIMD(N, S, U)                                    \
    KERNELS_PARTS(__vadd##N, U, a + b)                           \
    KERNELS_PARTS(__vsub##N, U, a - b)                           \
    KERNELS_PARTS(__vaddss##N, S, kernels::clamped<S>(a + b))    \
    KERNELS_PARTS(__vsubss##N, S, kernels::clamped<S>(a - b))    \
    KERNELS_PARTS(__vaddus##N, U, kernels::clamped<U>(a + b))    \
    KERNELS_PARTS(__vsubus##N, U, kernels::clamped<U>(a - b))    \
    KERNELS_PARTS(__vavgs##N, S, (a + b + (a + b >= 0)) >> 1)    \
    KERNELS_PARTS(__vavgu##N, U, (a + b + 1) >> 1)               \
    KERNELS_PARTS(__vhaddu##N, U, (a + b) >> 1)                  \
    KERNELS_PARTS(__vmaxs##N, S, a > b ? a : b)                  \
    KERNELS_PARTS(__vmaxu##N, U, a > b ? a : b)                  \
    KERNELS_PARTS(__vmins##N, S, a < b ? a : b)                  \
    KERNELS_PARTS(__vminu##N, U, a < b ? a : b)                  \
    KERNELS_PARTS(__vabsdiffs##N, S, a > b ? a - b : b - a)      \
    KERNELS_PARTS(__vabsdiffu##N, U, a > b ? a - b : b - a)      \
    KERNELS_PARTS_SUM(__vsads##N, S)                             \
    KERNELS_PARTS_SUM(__vsadu##N, U)                             \
    KERNELS_PARTS_OF_ONE(__vabs##N, S, a < 0 ? -a : a)           \
    KERNELS_PARTS_OF_ONE(__vabsss##N, S, kernels::clamped<S>(a < 0 ? -a : a)) \
    KERNELS_PARTS_OF_ONE(__vneg##N, S, -a)                       \
    KERNELS_PARTS_OF_ONE(__vnegss##N, S, kernels::clamped<S>(-a)) \
    KERNELS_COMPARE(eq, N, U, ==)                                \
    KERNELS_COMPARE(ne, N, U, !=)                                \
    KERNELS_COMPARE(ges, N, S, >=)                               \
    KERNELS_COMPARE(geu, N, U, >=)                               \
    KERNELS_COMPARE(gts, N, S, >)                                \
    KERNELS_COMPARE(gtu, N, U, >)                                \
    KERNELS_COMPARE(les, N, S, <=)                               \
    KERNELS_COMPARE(leu, N, U, <=)                               \
    KERNELS_COMPARE(lts, N, S, <)                                \
    KERNELS_COMPARE(ltu, N, U, <)

KERNELS_SIMD(2, short, unsigned short)
KERNELS_SIMD(4, signed char, unsigned char)
#undef KERNELS_SIMD
#undef KERNELS_COMPARE
#undef KERNELS_PARTS_SUM
#undef KERNELS_PARTS_OF_ONE
#undef KERNELS_PARTS
