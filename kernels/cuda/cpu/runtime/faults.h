// What would end the process, and ends the launch instead: what the processor refuses a kernel, and an interrupt.
#pragma once
#include <signal.h>
#include <stdint.h>

namespace kernels {

struct Launch;

// As kernels/cuda/cpu/faults.py reads it.
struct Fault {
    enum Kind : uint32_t { none, memory, null_pointer, stack, static_shared, dynamic_shared, tensor, misaligned, interrupted };
    uint32_t kind = none;
    uint32_t writes = 0;    // 2: whether it reads or writes is not known
    uint32_t argument = 0;  // where the kernel's arguments hold the pointer, in bytes
    uint32_t after = 0;     // the launch had ended when it was seen
    uint64_t code = 0;      // the address of the instruction, or of a call on the way to it; 0 where none is known
    int64_t offset = 0;     // from the beginning of the shared memory or the tensor's storage
};

// While it lives, an interrupt of the process's main thread stops a launch from that thread.
class Interruptible {
   public:
    explicit Interruptible(Launch& launch);
    ~Interruptible();

   private:
    bool installed = false;
};

// A stack for signals on the calling OS thread: an overflow leaves no room on the thread's own.
struct SignalStack {
    SignalStack();
    ~SignalStack();

   private:
    void* memory;
};

}  // namespace kernels
