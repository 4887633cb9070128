// Integer divisions that an x86-64 refuses and a GPU does not: by zero, and of the smallest integer by -1.
#pragma once
#include <ucontext.h>

namespace kernels {

// Gives the instruction that was refused the result of a GPU, and goes on after it. False: it is no division.
bool divided_as_a_gpu_does(ucontext_t& at);

}  // namespace kernels
