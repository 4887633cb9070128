// One launch: its blocks are handed out in order to the OS threads that work on it.
#pragma once
#include <atomic>
#include <mutex>
#include <string>

#include "kernels/abi.h"

namespace kernels {

struct Launch {
    const Kernel* kernel;
    dim3 grid, block;
    const char* args;
    uint64_t blocks;

    std::atomic<uint64_t> next{0};
    std::atomic<bool> failed{false};

    std::mutex mutex;
    uint64_t failed_block = ~uint64_t(0);
    std::string error;

    int helpers_wanted = 0, helpers_working = 0;  // guarded by the helpers' mutex

    // Runs blocks until none is left or one fails; `for_now`, stops early when others should be asked to help.
    void work(bool for_now = false);
};

// OS threads that help with launches that last.
void ask_for_help(Launch& launch);
void end_help(Launch& launch);

}  // namespace kernels
