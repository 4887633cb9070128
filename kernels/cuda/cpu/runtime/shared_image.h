// The thread-local memory that a kernel's library has on the calling OS thread: a block's static shared memory and
// built-in variables, which an instrumented library has elsewhere. They are kept aside while another block runs on the same
// OS thread.
#pragma once
#include <stddef.h>

#include <vector>

#include "kernels/abi.h"

namespace kernels {

struct SharedImage {
    Thread* variables = nullptr;
    char* data = nullptr;
    size_t bytes = 0;
    const char* initial = nullptr;
    size_t initial_bytes = 0;

    static SharedImage of(const Kernel& kernel, Thread* variables);
    void save(std::vector<char>& to) const;
    void restore(const std::vector<char>& from) const;
    void reset() const;  // as it was before the library's first block
};

}  // namespace kernels
