#include "launch.h"

#include <chrono>

#include "worker.h"

namespace kernels {

// Blocks are handed out in order and a block once begun is ended, so the first failing block is the same in every run.
void Launch::work(bool for_now) {
    // Waking other threads costs about as much as this; a launch that ends sooner does without.
    constexpr auto alone = std::chrono::microseconds(20);
    const auto start = std::chrono::steady_clock::now();
    Worker& worker = Worker::of_this_thread();
    worker.enter(*this);
    while (!failed.load(std::memory_order_relaxed)) {
        const uint64_t number = next.fetch_add(1, std::memory_order_relaxed);
        if (number >= blocks) return;
        if (!worker.run_block(number)) {
            std::lock_guard<std::mutex> lock(mutex);
            failed = true;
            if (number < failed_block) failed_block = number, error = worker.error;
        }
        if (for_now && std::chrono::steady_clock::now() - start > alone) return;
    }
}

}  // namespace kernels

// Runs a kernel to its end. `sizes`: of the grid, then of the block. Returns nullptr, or an error's text, which stays until
// the calling thread launches again.
extern "C" __attribute__((visibility("default"))) const char* kernels_launch(const kernels::Kernel* kernel,
                                                                             const uint32_t* sizes, const char* args,
                                                                             int os_threads) {
    static thread_local std::string error;
    kernels::Launch launch;
    launch.kernel = kernel;
    launch.grid = dim3(sizes[0], sizes[1], sizes[2]);
    launch.block = dim3(sizes[3], sizes[4], sizes[5]);
    launch.args = args;
    launch.blocks = uint64_t(sizes[0]) * sizes[1] * sizes[2];
    launch.helpers_wanted = os_threads - 1;
    launch.work(os_threads > 1);
    if (!launch.failed && launch.next < launch.blocks) {
        ask_for_help(launch);
        launch.work();
        end_help(launch);
    }
    if (!launch.failed) return nullptr;
    error = std::move(launch.error);
    return error.c_str();
}
