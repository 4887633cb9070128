// How a function returns that switches stacks: to where the thread that comes back called it. A processor predicts `ret` from
// the calls that it has seen, of which the last is another thread's: wrong wherever the two calls differ. It predicts a jump
// from where such jumps went before.
#pragma once

#if defined(__x86_64__) && __has_attribute(function_return)
#define KERNELS_RETURNS_BY_A_JUMP __attribute__((function_return("thunk-extern")))
// The name that compilers give it.
asm(R"(
.pushsection .text
.p2align 4
.local __x86_return_thunk
.type __x86_return_thunk, @function
__x86_return_thunk:
    popq %rcx
    jmpq *%rcx
.size __x86_return_thunk, .-__x86_return_thunk
.popsection
)");
#else
#define KERNELS_RETURNS_BY_A_JUMP
#endif
