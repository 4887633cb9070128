// Shuffles, votes and __syncwarp. A value travels in 8 bytes; the lane that arrives last computes everyone's result.
#pragma once

namespace kernels {

inline uint64_t collective(Collective kind, uint32_t mask, uint64_t value, uint32_t argument, uint32_t width,
                           Site site) {
    return self.runtime->collective({kind, mask, value, argument, width, site});
}

template <class T>
inline T shuffle(Collective kind, uint32_t mask, T value, uint32_t argument, int width, Site site) {
    static_assert((std::is_arithmetic<T>::value && sizeof(T) <= 8) || sizeof(T) == 2 || sizeof(T) == 4,
                  "a shuffle moves integers, float, double, half types or pairs of them");
    static_assert(std::is_trivially_destructible<T>::value, "a shuffle moves plain values");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    bits = collective(kind, mask, bits, argument, uint32_t(width), site);
    memcpy(&value, &bits, sizeof(T));
    return value;
}

}  // namespace kernels

#define KERNELS_SITE int line = __builtin_LINE(), const char* file = __builtin_FILE()

template <class T>
inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32, KERNELS_SITE) {
    return kernels::shuffle(kernels::Collective::shuffle, mask, value, uint32_t(lane), width, {file, line});
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, KERNELS_SITE) {
    return kernels::shuffle(kernels::Collective::shuffle_up, mask, value, delta, width, {file, line});
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, KERNELS_SITE) {
    return kernels::shuffle(kernels::Collective::shuffle_down, mask, value, delta, width, {file, line});
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, KERNELS_SITE) {
    return kernels::shuffle(kernels::Collective::shuffle_xor, mask, value, uint32_t(lane_mask), width, {file, line});
}

inline void __syncwarp(unsigned mask = 0xffffffffu, KERNELS_SITE) {
    kernels::collective(kernels::Collective::sync, mask, 0, 0, 32, {file, line});
}
inline unsigned __ballot_sync(unsigned mask, int predicate, KERNELS_SITE) {
    return unsigned(kernels::collective(kernels::Collective::ballot, mask, predicate != 0, 0, 32, {file, line}));
}
inline int __any_sync(unsigned mask, int predicate, KERNELS_SITE) {
    return int(kernels::collective(kernels::Collective::any, mask, predicate != 0, 0, 32, {file, line}));
}
inline int __all_sync(unsigned mask, int predicate, KERNELS_SITE) {
    return int(kernels::collective(kernels::Collective::all, mask, predicate != 0, 0, 32, {file, line}));
}
