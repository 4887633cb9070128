// Shuffles, votes, matches, reductions and __syncwarp. A value travels in 8 bytes; the lane that arrives last computes
// everyone's result.
#pragma once

namespace kernels {

inline uint64_t collective(Collective kind, uint32_t mask, uint64_t value, const char* file, int line, const char* call) {
    return collective(kind, mask, value, 0, warp_size, file, line, call);
}
inline uint64_t collective(Collective kind, uint32_t mask, uint64_t value, Site site) {
    return collective(kind, mask, value, site.file, site.line, site.call);
}

template <class T>
inline T shuffle(Collective kind, uint32_t mask, T value, uint32_t argument, int width, const char* file, int line,
                 const char* call) {
    static_assert((std::is_arithmetic<T>::value && sizeof(T) <= 8) || sizeof(T) == 2 || sizeof(T) == 4,
                  "a shuffle moves integers, float, double, half types or pairs of them");
    static_assert(std::is_trivially_destructible<T>::value, "a shuffle moves plain values");
    if constexpr (std::is_same<T, float>::value) {  // which stays in a register
        const uint64_t given = collective(kind, mask, kernels::bits<uint32_t>(value), argument, width, file, line, call);
        return kernels::bits<float>(uint32_t(given));
    } else if constexpr (std::is_integral<T>::value) {
        return T(collective(kind, mask, uint64_t(value), argument, width, file, line, call));
    } else {
        uint64_t bits = 0;
        memcpy(&bits, &value, sizeof(T));
        bits = collective(kind, mask, bits, argument, width, file, line, call);
        memcpy(&value, &bits, sizeof(T));
        return value;
    }
}

// What lanes compare of a value: its bits, so that -0 is not 0 and a NaN is itself.
template <class T>
inline uint64_t match_bits(T value) {
    static_assert(std::is_arithmetic<T>::value, "a match compares integers, float or double");
    if constexpr (sizeof(T) < 4) return uint32_t(int(value));
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    return bits;
}

}  // namespace kernels

template <class T>
inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32, KERNELS_SITE) {
    return kernels::shuffle(kernels::Collective::shuffle, mask, value, uint32_t(lane), width, file, line, "__shfl_sync");
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, KERNELS_SITE) {
    return kernels::shuffle(kernels::Collective::shuffle_up, mask, value, delta, width, file, line, "__shfl_up_sync");
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, KERNELS_SITE) {
    return kernels::shuffle(kernels::Collective::shuffle_down, mask, value, delta, width, file, line, "__shfl_down_sync");
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, KERNELS_SITE) {
    return kernels::shuffle(kernels::Collective::shuffle_xor, mask, value, uint32_t(lane_mask), width, file, line,
                            "__shfl_xor_sync");
}

inline void __syncwarp(unsigned mask = 0xffffffffu, KERNELS_SITE) {
    kernels::collective(kernels::Collective::sync, mask, 0, file, line, "__syncwarp");
}

// The lanes that ask on this line; a GPU may name fewer of them.
inline unsigned __activemask(KERNELS_SITE) {
    return unsigned(kernels::collective(kernels::Collective::active, 0xffffffffu, 0, file, line, "__activemask"));
}

#define KERNELS_VOTE(NAME, KIND, R)                                                                            \
    inline R NAME(unsigned mask, int predicate, KERNELS_SITE) {                                                \
        return R(kernels::collective(kernels::Collective::KIND, mask, predicate != 0, file, line, #NAME));     \
    }
KERNELS_VOTE(__ballot_sync, ballot, unsigned)
KERNELS_VOTE(__any_sync, any, int)
KERNELS_VOTE(__all_sync, all, int)
#undef KERNELS_VOTE

template <class T>
inline unsigned __match_any_sync(unsigned mask, T value, KERNELS_SITE) {
    return unsigned(kernels::collective(kernels::Collective::match_any, mask, kernels::match_bits(value), file, line,
                                        "__match_any_sync"));
}
template <class T>
inline unsigned __match_all_sync(unsigned mask, T value, int* equal, KERNELS_SITE) {
    const auto lanes = unsigned(kernels::collective(kernels::Collective::match_all, mask, kernels::match_bits(value), file,
                                                    line, "__match_all_sync"));
    *equal = lanes != 0;
    return lanes;
}

#define KERNELS_REDUCE(NAME, KIND, T)                                                                       \
    inline T NAME(unsigned mask, T value, KERNELS_SITE) {                                                   \
        return T(kernels::collective(kernels::Collective::KIND, mask, unsigned(value), file, line, #NAME)); \
    }
KERNELS_REDUCE(__reduce_add_sync, add, int)
KERNELS_REDUCE(__reduce_add_sync, add, unsigned)
KERNELS_REDUCE(__reduce_min_sync, min_signed, int)
KERNELS_REDUCE(__reduce_min_sync, min_unsigned, unsigned)
KERNELS_REDUCE(__reduce_max_sync, max_signed, int)
KERNELS_REDUCE(__reduce_max_sync, max_unsigned, unsigned)
KERNELS_REDUCE(__reduce_and_sync, bit_and, unsigned)
KERNELS_REDUCE(__reduce_or_sync, bit_or, unsigned)
KERNELS_REDUCE(__reduce_xor_sync, bit_xor, unsigned)
#undef KERNELS_REDUCE
