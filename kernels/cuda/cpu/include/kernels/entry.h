// How a kernel's library is entered: for each kernel, a function that starts the threads of a block one after another.
#pragma once

namespace kernels {

// A copy of an argument, which need not be aligned where it comes from.
template <class T>
KERNELS_UNSEEN inline T argument(const char* from) {
    alignas(T) char copy[sizeof(T)];
    memcpy(copy, from, sizeof(T));
    return *reinterpret_cast<T*>(copy);
}

// A reference is passed as a pointer is.
template <class P>
struct Passed {
    static constexpr uint32_t bytes = sizeof(P);
    KERNELS_UNSEEN static P from(const char* at) { return argument<std::remove_cv_t<P>>(at); }
};
template <class P>
struct Passed<P&> {
    static constexpr uint32_t bytes = sizeof(P*);
    KERNELS_UNSEEN static P& from(const char* at) { return *argument<P*>(at); }
};

template <auto kernel>
struct Entry;

template <class... P, void (*kernel)(P...)>
struct Entry<kernel> {
    static constexpr uint32_t sizes[sizeof...(P) + 1] = {Passed<P>::bytes..., 0};

    KERNELS_UNSEEN static constexpr uint32_t offset(size_t parameter) {
        uint32_t bytes = 0;
        for (size_t i = 0; i < parameter; ++i) bytes += sizes[i];
        return bytes;
    }

    // The runtime may look between any two branches (worker.cpp), which the compiler does not know.
    KERNELS_UNSEEN static void set_starting(bool value) {
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        self.starting = value;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    }

    // A thread that waits leaves this loop standing; another fiber then goes on with the threads that are left.
    template <size_t... I>
    KERNELS_UNSEEN static void start_threads(const char* args, std::index_sequence<I...>) {
        Thread& thread = self;
        while (thread.next < thread.count) {
            uint32_t number = thread.next++;
            if (thread.order) {
                number = thread.order[number];
                thread.thread_index = {number % thread.block_dim.x, number / thread.block_dim.x % thread.block_dim.y,
                                       number / thread.block_dim.x / thread.block_dim.y};
            } else {
                thread.thread_index = thread.next_index;
                if (++thread.next_index.x == thread.block_dim.x) {
                    thread.next_index.x = 0;
                    if (++thread.next_index.y == thread.block_dim.y) thread.next_index.y = 0, ++thread.next_index.z;
                }
            }
            thread.running = number;
            set_starting(false);
            kernel(Passed<P>::from(args + offset(I))...);
            set_starting(true);
            thread.finished[number / warp_size] |= 1u << number % warp_size;
#if defined(KERNELS_INSTRUMENTED)
            kernels_lens_returned();
#endif
        }
    }

    KERNELS_UNSEEN static void run(const char* args) { start_threads(args, std::index_sequence_for<P...>{}); }
    KERNELS_UNSEEN static Thread* thread() { return &self; }

    static constexpr void (*function)(P...) = kernel;
    static constexpr uint32_t parameters = sizeof...(P);
};

}  // namespace kernels

// Without code that runs when the library is loaded: none of a library's may (`functions` of ../../__init__.py).
#define KERNELS_ENTRY(NUMBER, ...) \
    extern "C" __attribute__((visibility("default"))) kernels::Kernel kernels_entry_##NUMBER = { \
        (const void*)kernels::Entry<&__VA_ARGS__>::function, kernels::Entry<&__VA_ARGS__>::thread, \
        kernels::Entry<&__VA_ARGS__>::run, kernels::Entry<&__VA_ARGS__>::parameters, \
        kernels::Entry<&__VA_ARGS__>::sizes};
