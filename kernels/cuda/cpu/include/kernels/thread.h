// threadIdx and its kin, the barriers of a block, and fences.
#pragma once

namespace kernels {

#if defined(KERNELS_INSTRUMENTED)
// The lens's, which runs kernels on one OS thread: out of the reach of an index past an array.
extern __attribute__((visibility("default"))) Thread self;
// Its first members: the compiler reports no read of what is constant, as a thread's own are while it runs.
extern "C" __attribute__((visibility("default"))) const uint3 kernels_built_in[4];
#define KERNELS_BUILT_IN(NUMBER, NAME) ::kernels::kernels_built_in[NUMBER]
#else
// Initialised as a constant: no access to it then has to ask whether it has been initialised.
// Among what is initialised, which comes first: an index past a shared array does not meet it.
static thread_local Thread self __attribute__((section(".tdata.kernels"))) = {};
#define KERNELS_BUILT_IN(NUMBER, NAME) ::kernels::self.NAME
#endif

// The lens is called by name: to look up what to call would be seen.
#if defined(KERNELS_INSTRUMENTED)
extern "C" uint32_t kernels_lens_barrier(Barrier, uint32_t value, const char* file, int line, const char* call);
extern "C" uint64_t kernels_lens_collective(uint64_t kind_line, uint32_t mask, uint64_t value, uint64_t argument_width,
                                            const char* file, const char* call);
extern "C" void kernels_lens_returned();  // from the kernel, once for each thread
#define KERNELS_CALL(NAME) kernels_lens_##NAME
#else
#define KERNELS_CALL(NAME) self.runtime->NAME
#endif
inline uint32_t barrier(Barrier kind, uint32_t value, const char* file, int line, const char* call) {
    return KERNELS_CALL(barrier)(kind, value, file, line, call);
}
inline uint64_t collective(Collective kind, uint32_t mask, uint64_t value, uint32_t argument, int width, const char* file,
                           int line, const char* call) {
    return KERNELS_CALL(collective)(uint64_t(kind) | uint64_t(line) << 32, mask, value,
                                    argument | uint64_t(uint32_t(width)) << 32, file, call);
}
#undef KERNELS_CALL

// `extern __shared__ T name[];` is rewritten to a reference to this memory.
template <class T>
inline T (&dynamic_shared())[] {
    return *static_cast<T(*)[]>(self.dynamic_shared);
}

// The start of a kernel with __launch_bounds__, whose further arguments are about registers.
template <class... Rest>
inline void at_most_threads(uint32_t bound, Rest...) {
    const dim3 block = self.block_dim;
    if (block.x * block.y * block.z > bound) self.runtime->services->too_many_threads(bound);
}

// The end of a kernel that may also return before: who comes here has passed by every barrier that others still wait at.
KERNELS_UNSEEN inline void at_end() { self.one_at_end = true; }

// Called where a thread may be waiting for memory to change. One that keeps coming lets other threads and blocks go on,
// as a GPU's schedulers do.
inline void poll(Site site) {
    if (--self.patience < 0) self.runtime->poll(site);
}

}  // namespace kernels

#define threadIdx (reinterpret_cast<const ::uint3&>(KERNELS_BUILT_IN(0, thread_index)))
#define blockIdx (reinterpret_cast<const ::uint3&>(KERNELS_BUILT_IN(1, block_index)))
#define blockDim (reinterpret_cast<const ::dim3&>(KERNELS_BUILT_IN(2, block_dim)))
#define gridDim (reinterpret_cast<const ::dim3&>(KERNELS_BUILT_IN(3, grid_dim)))

static constexpr int warpSize = 32;

// The default arguments are evaluated at the call, which is how an error knows the learner's line.
#define KERNELS_SITE int line = __builtin_LINE(), const char* file = __builtin_FILE()

inline void __syncthreads(KERNELS_SITE) {
    kernels::barrier(kernels::Barrier::sync, 0, file, line, "__syncthreads");
}
inline int __syncthreads_count(int predicate, KERNELS_SITE) {
    return int(kernels::barrier(kernels::Barrier::count, predicate != 0, file, line, "__syncthreads_count"));
}
inline int __syncthreads_and(int predicate, KERNELS_SITE) {
    return int(kernels::barrier(kernels::Barrier::all, predicate != 0, file, line, "__syncthreads_and"));
}
inline int __syncthreads_or(int predicate, KERNELS_SITE) {
    return int(kernels::barrier(kernels::Barrier::any, predicate != 0, file, line, "__syncthreads_or"));
}

// Blocks share memory between OS threads; the threads of a block share one, where a compiler barrier is enough.
inline void __threadfence(KERNELS_SITE) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    kernels::poll({file, line, "__threadfence"});
}
inline void __threadfence_system(KERNELS_SITE) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    kernels::poll({file, line, "__threadfence_system"});
}
inline void __threadfence_block(KERNELS_SITE) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    kernels::poll({file, line, "__threadfence_block"});
}

// Sleeps until others have had their turn, however long that takes.
inline void __nanosleep(unsigned, KERNELS_SITE) {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    kernels::self.runtime->poll({file, line, "__nanosleep"});
}
