// A library's static shared memory, moved to where no memory is behind it: an overrun is then an error of the processor's.
#pragma once
#include <stddef.h>

namespace kernels {

struct GuardedShared {
    char* begin = nullptr;
    size_t bytes = 0;
};

// Of the library that `function` is in, on the calling OS thread. Where the dynamic linker is not one that we know it stays
// where it is, without bytes.
GuardedShared guard_static_shared_of(const void* function);

}  // namespace kernels
