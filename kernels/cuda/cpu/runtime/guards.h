// The tensors of a launch as copies between memory that no one may use, so that a kernel that leaves them is stopped there,
// and harms nothing of the process's.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <memory>
#include <string>
#include <vector>

#include "faults.h"

namespace kernels {

// A tensor among the arguments, as kernels/cuda/cpu/guards.py passes it.
struct Guarded {
    uint64_t storage, bytes;
    uint32_t argument, number;  // where its pointer is among the arguments, in bytes; which of the storages it lies in
};

class Guards {
   public:
    // Of `count` tensors. The arguments with pointers into the copies: `args` itself if there are none.
    const char* copied(const Guarded* tensors, uint32_t count, const char* args, size_t bytes);
    void put_back(Fault& seen);  // and what of the memory just around the copies was written

    const Guarded* near(const void* address) const;
    const char* copy_of(const Guarded& tensor) const;

   private:
    const Guarded* tensors = nullptr;
    uint32_t count = 0;
    char** slots = nullptr;
    std::vector<char> args;
};

}  // namespace kernels
