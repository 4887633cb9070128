// One launch: its blocks are handed out to the OS threads that work on it.
#pragma once
#include <atomic>
#include <mutex>
#include <string>

#include "faults.h"
#include "guards.h"
#include "kernels/abi.h"

namespace kernels {

// As kernels/cuda/cpu/__init__.py passes it.
struct Settings {
    uint32_t grid[3], block[3];
    uint32_t os_threads;
    uint32_t resident;     // blocks that the GPU would hold at once
    uint32_t dynamic_shared_bytes;
    uint32_t cooperative;  // all blocks of the grid can wait for each other
    uint32_t ordered;      // start blocks and threads in an order made of `seed`
    uint64_t seed;
    double patience;       // seconds without progress after which waiting threads are given up
    uint64_t code_begin, code_end;  // of the kernel's library
    uint32_t guarded;      // no memory is just beyond shared memory, so that an overrun is an error
    uint32_t tensors;      // of `Guarded`, that follow the settings
    // Of the kernel's text, by lines of a file: its body, and from where on a thread may have returned; 0: nowhere.
    const char* file;
    uint32_t body_begin, body_end, returns_from;
    uint32_t ends_only;    // of all blocks, the first and the last run

    bool may_have_returned_before(const Site& site) const;
};

struct Launch {
    const Kernel* kernel;
    const Settings& settings;
    const char* args;
    uint64_t blocks, skipped = 0;  // that run; and between the first and the second of these

    Launch(const Kernel* kernel, const Settings& settings, const char* args);

    std::atomic<uint64_t> next{0}, resident{0}, finished{0};
    std::atomic<bool> failed{false}, interrupted{false};

    // Workers, and those among them whose blocks all wait for memory to change.
    std::atomic<int> workers{0}, stalled{0};
    std::atomic<int64_t> progress{0};  // when something was last seen to happen: microseconds of the steady clock

    // Barriers of the grid that have been passed, and the blocks at the next.
    std::atomic<uint64_t> grid_barriers{0};
    uint64_t at_grid_barrier = 0;  // guarded by the mutex
    std::atomic<bool> grid_stuck{false};

    std::mutex mutex;
    uint64_t failed_block = ~uint64_t(0);
    std::string error;
    Fault fault;

    Guards guards;

    int helpers_wanted = 0, helpers_working = 0;  // guarded by the helpers' mutex

    void fail(uint64_t block, const std::string& text, const Fault& fault = {});
    void interrupt();
    bool lets_a_worker_run(uint64_t code) const;  // at this address, after an interrupt
    void arrive_at_grid_barrier();
    void block_finished();
};

// OS threads that help with launches that last.
void ask_for_help(Launch& launch);
void end_help(Launch& launch);

int64_t microseconds();

}  // namespace kernels
