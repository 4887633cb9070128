// Atomics, relaxed as CUDA's are. Blocks run on different OS threads, so these are real atomics.
#pragma once

namespace kernels {

template <size_t bytes> struct Word;
template <> struct Word<2> { using type = uint16_t; };
template <> struct Word<4> { using type = uint32_t; };
template <> struct Word<8> { using type = uint64_t; };

// Replaces *address by change(*address); returns what was there. Half types are classes, so words are exchanged.
template <class T, class Change>
inline T atomic_update(T* address, Change change) {
    using W = typename Word<sizeof(T)>::type;
    W* word = reinterpret_cast<W*>(address);
    W old = __atomic_load_n(word, __ATOMIC_RELAXED);
    for (;;) {
        T value;
        memcpy((void*)&value, &old, sizeof(T));
        const T updated = change(value);
        W replacement;
        memcpy(&replacement, &updated, sizeof(T));
        if (__atomic_compare_exchange_n(word, &old, replacement, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return value;
    }
}

}  // namespace kernels

#define KERNELS_ATOMIC_INTEGER(T)                                                                                  \
    inline T atomicAdd(T* address, T value) { return __atomic_fetch_add(address, value, __ATOMIC_RELAXED); }       \
    inline T atomicExch(T* address, T value) { return __atomic_exchange_n(address, value, __ATOMIC_RELAXED); }     \
    inline T atomicCAS(T* address, T compare, T value) {                                                           \
        __atomic_compare_exchange_n(address, &compare, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);          \
        return compare;                                                                                            \
    }                                                                                                              \
    inline T atomicMin(T* address, T value) {                                                                      \
        return kernels::atomic_update(address, [=](T old) { return value < old ? value : old; });                  \
    }                                                                                                              \
    inline T atomicMax(T* address, T value) {                                                                      \
        return kernels::atomic_update(address, [=](T old) { return value > old ? value : old; });                  \
    }

KERNELS_ATOMIC_INTEGER(int)
KERNELS_ATOMIC_INTEGER(unsigned int)
KERNELS_ATOMIC_INTEGER(unsigned long long)
#undef KERNELS_ATOMIC_INTEGER

inline int atomicSub(int* address, int value) { return __atomic_fetch_sub(address, value, __ATOMIC_RELAXED); }
inline unsigned atomicSub(unsigned* address, unsigned value) {
    return __atomic_fetch_sub(address, value, __ATOMIC_RELAXED);
}
inline float atomicAdd(float* address, float value) {
    return kernels::atomic_update(address, [=](float old) { return old + value; });
}
inline double atomicAdd(double* address, double value) {
    return kernels::atomic_update(address, [=](double old) { return old + value; });
}
inline float atomicExch(float* address, float value) {
    return kernels::atomic_update(address, [=](float) { return value; });
}
