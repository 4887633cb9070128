// Instrumented (kernels/lens), g++ reports a copy only if it makes one access of it, and of no memset. The others are made by
// the lens. (clang reports all of them, and neither has to report one whose size only the run knows: that is a call.)
#pragma once

#if defined(KERNELS_INSTRUMENTED) && !defined(__clang__)
#include <cstring>

extern "C" void* __tsan_memcpy(void* to, const void* from, size_t bytes);
extern "C" void* __tsan_memset(void* to, int value, size_t bytes);

__attribute__((always_inline)) inline void* kernels_memcpy(void* to, const void* from, size_t bytes) {
    return __builtin_constant_p(bytes) && bytes <= 16 && !(bytes & (bytes - 1)) ? __builtin_memcpy(to, from, bytes)
                                                                                : __tsan_memcpy(to, from, bytes);
}
__attribute__((always_inline)) inline void* kernels_memset(void* to, int value, size_t bytes) {
    return __tsan_memset(to, value, bytes);
}
namespace std {
using ::kernels_memcpy;
using ::kernels_memset;
}  // namespace std
#define memcpy kernels_memcpy
#define memset kernels_memset
#endif
