// Where the kernel's library has its thread-local memory: its static shared memory.
#pragma once
#include <stdint.h>

namespace kernels {
namespace lens {

struct ThreadLocal {
    uint64_t begin = 0, bytes = 0;
    bool moved = false;
};

// Moves what the library that `function` is in has on this OS thread to `to`, where red zones are around it. It stays where
// it is if `to` is 0 or the dynamic linker is not one that we know.
ThreadLocal move_thread_local(const void* function, uint64_t to);

}  // namespace lens
}  // namespace kernels
