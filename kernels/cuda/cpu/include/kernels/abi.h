// What a compiled kernel and the runtime know about each other. Both are built from this file.
#pragma once
#include <stdint.h>
#include "vector_types.h"

namespace kernels {

constexpr uint32_t warp_size = 32;
constexpr uint32_t max_threads = 1024;

// A call in the learner's text.
struct Site {
    const char* file;
    int line;
};

enum class Collective : uint32_t { sync, ballot, any, all, shuffle, shuffle_up, shuffle_down, shuffle_xor };

// One lane's part in a warp collective.
struct Lane {
    Collective kind;
    uint32_t mask;
    uint64_t value;     // the value offered to the other lanes, or the predicate of a vote
    uint32_t argument;  // source lane, distance or lane mask of a shuffle
    uint32_t width;     // of a shuffle
    Site site;
};

struct Runtime {
    void (*barrier)(Site);
    uint64_t (*collective)(const Lane&);
};

// One for each kernel library and OS thread: the built-in variables, and what is left of the block to start.
struct Thread {
    uint3 thread_index, block_index;
    dim3 block_dim, grid_dim;
    uint3 next_index;                           // of the next thread to start
    uint32_t next, count;                       // its number within the block, and the number of threads in it
    uint32_t running;                           // number of the running thread
    uint32_t finished[max_threads / warp_size];  // one bit a lane
    void* dynamic_shared;
    const Runtime* runtime;
};

// A kernel as its library exports it.
struct Kernel {
    const void* function;
    Thread* (*thread)();       // the calling OS thread's
    void (*run)(const char*);  // starts threads of the block until none is left; the arguments, one after another
    uint32_t parameters;
    const uint32_t* sizes;     // of the parameters, in bytes
};

}  // namespace kernels
