// CUDA's qualifiers. NVIDIA's host headers, included before this file, have defined most of them as nothing.
#pragma once

#undef __host__
#undef __device__
#undef __global__
#undef __shared__
#undef __constant__
#undef __managed__
#undef __grid_constant__
#undef __forceinline__
#undef __launch_bounds__

#define __host__
#define __device__
// The host may write it between launches, which the compiler cannot see.
#define __constant__ __attribute__((used))
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)  // enforced by a check at the start of the kernel's body (translate.py)
#define __forceinline__ inline __attribute__((always_inline))

// Only kernels are exported from a kernel's library, so that they can be told from device functions.
#define __global__ __attribute__((visibility("default")))

// Instrumented (kernels/lens): what our headers keep for themselves is not to be seen as the kernel's accesses, and loops
// stay as they are written.
#if !defined(KERNELS_INSTRUMENTED)
#define KERNELS_UNSEEN
#elif defined(__clang__)
#define KERNELS_UNSEEN __attribute__((disable_sanitizer_instrumentation, no_sanitize("thread", "coverage")))
#else
#define KERNELS_UNSEEN __attribute__((no_sanitize("thread"), no_sanitize_coverage))
#endif

#if defined(KERNELS_INSTRUMENTED)
#define KERNELS_UNROLL(FACTOR)
#define KERNELS_UNROLL_BY(FACTOR)
#elif defined(__clang__)
#define KERNELS_UNROLL(FACTOR) _Pragma("unroll")
#define KERNELS_UNROLL_BY(FACTOR) KERNELS_PRAGMA(unroll FACTOR)
#else
#define KERNELS_UNROLL(FACTOR) KERNELS_PRAGMA(GCC unroll FACTOR)
#define KERNELS_UNROLL_BY(FACTOR) KERNELS_PRAGMA(GCC unroll FACTOR)
#endif
#define KERNELS_PRAGMA(...) _Pragma(#__VA_ARGS__)

// A block stays on one OS thread. 16 bytes: vector loads from a shared array of float are common.
// kept: a compiler else splits an array of which it knows every index, and leaves out what no one reads; the lens could not
// tell its elements.
#if defined(KERNELS_INSTRUMENTED)
#define KERNELS_KEPT __attribute__((used))
#else
#define KERNELS_KEPT
#endif
#define __shared__ static thread_local __attribute__((aligned(16))) KERNELS_KEPT
