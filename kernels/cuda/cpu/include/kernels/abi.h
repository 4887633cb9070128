// What a compiled kernel and the runtime know about each other. Both are built from this file.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "vector_types.h"

#include "kernels/services.h"

namespace kernels {

constexpr uint32_t warp_size = 32;
constexpr uint32_t max_threads = 1024;

// Dynamic shared memory of a block, whatever a launch asks for, and on each side of it memory that no one may use.
// It is given out in steps.
constexpr size_t dynamic_shared_bytes = 256 << 10, dynamic_shared_guard = 16 << 20, dynamic_shared_step = 128;

// A call in the learner's source, and the name it is known by.
struct Site {
    const char* file;
    int line;
    const char* call;
};

// Barriers of a block, by what its threads receive; `grid` waits for the other blocks too.
enum class Barrier : uint32_t { sync, count, all, any, grid };

// Lanes that call the same of these with the same mask are served together.
enum class Collective : uint32_t {
    sync, meet, active, ballot, any, all, match_any, match_all,
    add, min_signed, min_unsigned, max_signed, max_unsigned, bit_and, bit_or, bit_xor,
    shuffle, shuffle_up, shuffle_down, shuffle_xor
};

// The calls that threads make most take their parts in registers: to write them into memory is what the lens would see.
// A collective has too many, so that two come as one, the first in the lower half. Its value is what the lane offers to the
// others, or the predicate of a vote; its argument the source lane, distance or lane mask of a shuffle.
struct Runtime {
    uint32_t (*barrier)(Barrier, uint32_t value, const char* file, int line, const char* call);
    uint64_t (*collective)(uint64_t kind_line, uint32_t mask, uint64_t value, uint64_t argument_width, const char* file,
                           const char* call);
    void (*tile)(uint32_t first, uint32_t count, const Site&);  // a barrier of these threads of the block
    void (*poll)(const Site&);                                  // the thread waits for memory to change: others go first
    const Services* services;
};

// One for each kernel library and OS thread: the built-in variables, and what is left of the block to start.
struct Thread {
    uint3 thread_index, block_index;
    dim3 block_dim, grid_dim;
    uint3 next_index;                           // of the next thread to start
    uint32_t next, count;                       // its number within the block, and the number of threads in it
    uint32_t running;                           // number of the running thread
    int32_t patience;                           // reads of unchanged memory before the thread lets others go first
    const uint16_t* order;                      // of starting threads, or nullptr for their own
    void** offers;                              // one a thread: what it shows to its group
    void* dynamic_shared;
    const Runtime* runtime;
    bool starting;                              // a thread: not all of the above is its own yet
    bool one_at_end;                            // a thread of the block has come to the end of the kernel's text
    bool cooperative;                           // all blocks of the grid are resident together
    bool guarded;                               // the library's thread-local memory is where it is to be
    uint32_t finished[max_threads / warp_size];  // one bit a lane
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
