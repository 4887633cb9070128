// __pipeline_memcpy_async and its kin (CUDA C++ Programming Guide, "Pipeline Primitives Interface").
#pragma once
#include "kernels/async_copy.h"

inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0, KERNELS_SITE) {
    if (bytes != 4 && bytes != 8 && bytes != 16)
        kernels::fail("__pipeline_memcpy_async", " of a size that is not 4, 8 or 16 bytes", {file, line});
    if ((uintptr_t(to) | uintptr_t(from)) % bytes)
        kernels::fail("__pipeline_memcpy_async", " with a pointer that is not aligned to the size", {file, line});
    if (zeros > bytes) kernels::fail("__pipeline_memcpy_async", " with more zeros than bytes", {file, line});
    kernels::start_copy(to, from, bytes, zeros);
}
inline void __pipeline_commit() { kernels::commit_copies(); }
inline void __pipeline_wait_prior(size_t keep) { kernels::land_copies(keep); }
