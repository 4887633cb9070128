// What a kernel asks of the runtime beside barriers and collectives.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace kernels {

struct Site;

enum class Space : uint32_t { global, shared, local };

struct Services {
    // Ends the launch with an error that names the site and the running thread. Does not return.
    void (*fail)(const char* what, Site site);
    // Ends the launch because of the kernel's __launch_bounds__. Does not return.
    void (*too_many_threads)(uint32_t bound);
    // One call of printf, in one piece.
    void (*print)(const char* text, size_t bytes);
    // Keeps the running thread until `ready(state)`, which other threads of the block bring about. `name` is for errors.
    void (*wait_until)(bool (*ready)(const void*), const void* state, const char* name, Site site);

    // Asynchronous copies happen when they are waited for, so that a wait that is missing shows. A thread's copies
    // gather in a batch; `commit` puts the batch into the queue of `owner`; `land` copies all batches of that queue but
    // the `keep` newest. Null is the running thread's own queue.
    void (*copy)(void* to, const void* from, uint32_t bytes, uint32_t zeros);
    void (*commit)(const void* owner);
    void (*land)(const void* owner, uint32_t keep);

    // The memory that an address is in, as the running thread has it.
    Space (*space)(const void* address);
};

}  // namespace kernels
