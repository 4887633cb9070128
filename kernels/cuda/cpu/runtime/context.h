// Switching between stacks. Hand-written for x86-64 and aarch64: ucontext, which serves elsewhere, makes a system call
// for the signal mask at every switch.
#pragma once
#include <stddef.h>
#include <stdint.h>

#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(KERNELS_UCONTEXT)

namespace kernels {

struct Context {
    void* stack_pointer;
};

extern "C" void kernels_switch(void** from, void* to);

inline void switch_context(Context& from, Context& to) { kernels_switch(&from.stack_pointer, to.stack_pointer); }

// Makes `context` call `entry`, which must not return, on the given stack when first switched to.
inline void prepare_context(Context& context, void* stack, size_t bytes, void (*entry)()) {
    uint64_t* top = reinterpret_cast<uint64_t*>((reinterpret_cast<uintptr_t>(stack) + bytes) & ~uintptr_t(15));
#if defined(__x86_64__)
    // Six registers, the address that `ret` takes, and a return address of 0 above which the stack is 16-byte aligned.
    uint64_t* frame = top - 8;
    for (int i = 0; i < 8; ++i) frame[i] = 0;
    frame[6] = reinterpret_cast<uint64_t>(entry);
#else
    // x19 to x30, d8 to d15; x30 holds the address that `ret` takes.
    uint64_t* frame = top - 20;
    for (int i = 0; i < 20; ++i) frame[i] = 0;
    frame[11] = reinterpret_cast<uint64_t>(entry);
#endif
    context.stack_pointer = frame;
}

}  // namespace kernels

#else
#include <ucontext.h>

namespace kernels {

struct Context {
    ucontext_t state;
};

inline void switch_context(Context& from, Context& to) { swapcontext(&from.state, &to.state); }

inline void prepare_context(Context& context, void* stack, size_t bytes, void (*entry)()) {
    getcontext(&context.state);
    context.state.uc_stack.ss_sp = stack;
    context.state.uc_stack.ss_size = bytes;
    context.state.uc_link = nullptr;
    makecontext(&context.state, entry, 0);
}

}  // namespace kernels

#endif
