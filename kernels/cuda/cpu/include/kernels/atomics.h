// Atomics of every type that CUDA has them for, relaxed as CUDA's are. Blocks run on different OS threads, so these are
// real atomics. One that leaves memory as it was may be part of a loop that waits, so others get a turn.
#pragma once

namespace kernels {

#if defined(KERNELS_INSTRUMENTED)
extern "C" uint64_t kernels_lens_guess(const void* word, uint32_t bytes, bool overwrites);
#endif

template <size_t bytes> struct Word;
template <> struct Word<2> { using type = uint16_t; };
template <> struct Word<4> { using type = uint32_t; };
template <> struct Word<8> { using type = uint64_t; };

template <class W>
inline W seen_before(const W* word, bool overwrites) {
#if defined(KERNELS_INSTRUMENTED)
    return W(kernels_lens_guess(word, sizeof(W), overwrites));
#else
    (void)overwrites;
    return __atomic_load_n(word, __ATOMIC_RELAXED);
#endif
}

// Replaces *address by change(*address); returns what was there. Half types are classes, so words are exchanged.
// overwrites: memory may change whatever is there, unlike at a minimum, which leaves what is smaller.
template <class T, class Change>
inline T atomic_update(T* address, Change change, Site site = {nullptr, 0, "an atomic"}, bool overwrites = true) {
    using W = typename Word<sizeof(T)>::type;
    W* word = reinterpret_cast<W*>(address);
    W old = seen_before(word, overwrites);
    for (;;) {
        T value;
        memcpy((void*)&value, &old, sizeof(T));
        const T updated = change(value);
        W replacement;
        memcpy(&replacement, &updated, sizeof(T));
        if (__atomic_compare_exchange_n(word, &old, replacement, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            if (replacement == old) poll(site);
            return value;
        }
    }
}

template <class T>
inline T atomic_exchange(T* address, T value, Site site) {
    const T old = __atomic_exchange_n(address, value, __ATOMIC_RELAXED);
    if (old == value) poll(site);
    return old;
}

template <class T>
inline T atomic_compare(T* address, T compare, T value, Site site) {
    // What a lock's owner wrote before it let go must be seen by the next: on a GPU a fence follows, and costs more.
    const T wanted = compare;
    __atomic_compare_exchange_n(address, &compare, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    if (compare != wanted || value == wanted) poll(site);
    return compare;
}

}  // namespace kernels

// Every atomic exists for the device, for a block (_block) and for the system (_system), which are the same here.
#define KERNELS_ATOMIC(NAME, T, ...)                                                                     \
    inline T NAME(T* address, T value, KERNELS_SITE) { const kernels::Site site = {file, line, #NAME}; __VA_ARGS__ } \
    inline T NAME##_block(T* address, T value, KERNELS_SITE) {                                           \
        const kernels::Site site = {file, line, #NAME "_block"};                                         \
        __VA_ARGS__                                                                                      \
    }                                                                                                    \
    inline T NAME##_system(T* address, T value, KERNELS_SITE) {                                          \
        const kernels::Site site = {file, line, #NAME "_system"};                                        \
        __VA_ARGS__                                                                                      \
    }
#define KERNELS_ATOMIC_FETCH(NAME, T, OPERATION, UNCHANGED)                         \
    KERNELS_ATOMIC(NAME, T, {                                                       \
        const T old = __atomic_fetch_##OPERATION(address, value, __ATOMIC_RELAXED); \
        if (UNCHANGED) kernels::poll(site);                                         \
        return old;                                                                 \
    })
#define KERNELS_ATOMIC_UPDATE(NAME, T, UPDATED) \
    KERNELS_ATOMIC(NAME, T, return kernels::atomic_update(address, [=](T old) -> T { return UPDATED; }, site);)
#define KERNELS_ATOMIC_UPDATE_IF(NAME, T, BETTER)                                                                \
    KERNELS_ATOMIC(NAME, T, {                                                                                    \
        return kernels::atomic_update(address, [=](T old) -> T { return BETTER ? value : old; }, site, false);   \
    })
#define KERNELS_ATOMIC_CAS(NAME, T)                                               \
    inline T NAME(T* address, T compare, T value, KERNELS_SITE) {                 \
        return kernels::atomic_compare(address, compare, value, {file, line, #NAME}); \
    }

#define KERNELS_ATOMIC_BITS(T)                                               \
    KERNELS_ATOMIC_FETCH(atomicAnd, T, and, (old & value) == old)            \
    KERNELS_ATOMIC_FETCH(atomicOr, T, or, (old | value) == old)              \
    KERNELS_ATOMIC_FETCH(atomicXor, T, xor, value == 0)                      \
    KERNELS_ATOMIC_UPDATE_IF(atomicMin, T, value < old)                      \
    KERNELS_ATOMIC_UPDATE_IF(atomicMax, T, value > old)
#define KERNELS_ATOMIC_INTEGER(T)                                                              \
    KERNELS_ATOMIC_FETCH(atomicAdd, T, add, value == 0)                                        \
    KERNELS_ATOMIC(atomicExch, T, return kernels::atomic_exchange(address, value, site);)      \
    KERNELS_ATOMIC_CAS(atomicCAS, T)                                                           \
    KERNELS_ATOMIC_CAS(atomicCAS_block, T)                                                     \
    KERNELS_ATOMIC_CAS(atomicCAS_system, T)

KERNELS_ATOMIC_BITS(int)
KERNELS_ATOMIC_BITS(unsigned)
KERNELS_ATOMIC_BITS(long long)
KERNELS_ATOMIC_BITS(unsigned long long)
KERNELS_ATOMIC_INTEGER(int)
KERNELS_ATOMIC_INTEGER(unsigned)
KERNELS_ATOMIC_INTEGER(unsigned long long)
KERNELS_ATOMIC_CAS(atomicCAS, unsigned short)
KERNELS_ATOMIC_CAS(atomicCAS_block, unsigned short)
KERNELS_ATOMIC_CAS(atomicCAS_system, unsigned short)
KERNELS_ATOMIC_FETCH(atomicSub, int, sub, value == 0)
KERNELS_ATOMIC_FETCH(atomicSub, unsigned, sub, value == 0)
KERNELS_ATOMIC_UPDATE(atomicInc, unsigned, old >= value ? 0u : old + 1)
KERNELS_ATOMIC_UPDATE(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)
KERNELS_ATOMIC_UPDATE(atomicAdd, float, old + value)
KERNELS_ATOMIC_UPDATE(atomicAdd, double, old + value)
KERNELS_ATOMIC_UPDATE(atomicExch, float, value)

// Pairs and fours of floats are added one element after another, each of them atomically (sm_90).
#define KERNELS_ATOMIC_VECTOR(T, ...)                                                        \
    KERNELS_ATOMIC(atomicAdd, T, {                                                           \
        (void)site;                                                                          \
        T old;                                                                               \
        for (size_t i = 0; i < sizeof(T) / sizeof(float); ++i)                               \
            (&old.x)[i] = atomicAdd(&address->x + i, (&value.x)[i]);                         \
        return old;                                                                          \
    })
KERNELS_ATOMIC_VECTOR(float2)
KERNELS_ATOMIC_VECTOR(float4)
