// threadIdx and its kin, and the barrier of a block.
#pragma once

namespace kernels {

// Initialised as a constant: no access to it then has to ask whether it has been initialised.
static thread_local Thread self = {};

// `extern __shared__ T name[];` is rewritten to a reference to this memory.
template <class T>
inline T (&dynamic_shared())[] {
    return *static_cast<T(*)[]>(self.dynamic_shared);
}

}  // namespace kernels

#define threadIdx (static_cast<const uint3&>(::kernels::self.thread_index))
#define blockIdx (static_cast<const uint3&>(::kernels::self.block_index))
#define blockDim (static_cast<const dim3&>(::kernels::self.block_dim))
#define gridDim (static_cast<const dim3&>(::kernels::self.grid_dim))

static constexpr int warpSize = 32;

// The default arguments are evaluated at the call, which is how an error knows the learner's line.
inline void __syncthreads(int line = __builtin_LINE(), const char* file = __builtin_FILE()) {
    ::kernels::self.runtime->barrier({file, line});
}

// Blocks share memory between OS threads; the threads of a block share one, where a compiler barrier is enough.
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
