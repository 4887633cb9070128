#include "launch.h"

#include <string.h>

#include <chrono>

#include "worker.h"

namespace kernels {

static thread_local Fault last_fault;

int64_t microseconds() {
    using namespace std::chrono;
    return duration_cast<std::chrono::microseconds>(steady_clock::now().time_since_epoch()).count();
}

Launch::Launch(const Kernel* kernel, const Settings& settings, const char* args)
    : kernel(kernel), settings(settings), args(args) {
    const auto* tensors = reinterpret_cast<const Guarded*>(&settings + 1);
    size_t bytes = 0;
    for (uint32_t i = 0; i < kernel->parameters; ++i) bytes += kernel->sizes[i];
    this->args = guards.copied(tensors, settings.tensors, args, bytes);
    blocks = uint64_t(settings.grid[0]) * settings.grid[1] * settings.grid[2];
    if (settings.ends_only && blocks > 2) skipped = blocks - 2, blocks = 2;
    helpers_wanted = int(settings.os_threads) - 1;
}

// What is not in the kernel's own text is in a function that it calls, which may be after any of its returns.
bool Settings::may_have_returned_before(const Site& site) const {
    const uint32_t line = uint32_t(site.line);
    const bool own = body_begin <= line && line <= body_end && site.file && !strcmp(site.file, file);
    return returns_from && (!own || returns_from <= line);
}

// The first block to fail is reported, whichever OS thread is the first to say so.
void Launch::fail(uint64_t block, const std::string& text, const Fault& why) {
    std::lock_guard<std::mutex> lock(mutex);
    failed = true;
    if (block < failed_block) failed_block = block, error = text, fault = why;
}

// A grid barrier is passed when every block is at it, and never when some of them have finished.
void Launch::arrive_at_grid_barrier() {
    std::lock_guard<std::mutex> lock(mutex);
    if (++at_grid_barrier == blocks) {
        at_grid_barrier = 0;
        progress = microseconds();
        ++grid_barriers;
    } else if (at_grid_barrier + finished == blocks) {
        grid_stuck = true;
    }
}

void Launch::block_finished() {
    --resident;
    if (!settings.cooperative) {
        ++finished;
        return;
    }
    std::lock_guard<std::mutex> lock(mutex);
    if (++finished + at_grid_barrier == blocks && at_grid_barrier) grid_stuck = true;
}

}  // namespace kernels

// Runs a kernel to its end. Returns nullptr, or an error's text, which stays until the calling thread launches again.
extern "C" __attribute__((visibility("default"))) const char* kernels_launch(const kernels::Kernel* kernel,
                                                                             const kernels::Settings* settings,
                                                                             const char* args) {
    static thread_local std::string error;
    kernels::Launch launch(kernel, *settings, args);
    kernels::Worker& worker = kernels::Worker::current_thread();
    {
        kernels::Interruptible interruptible(launch);
        worker.work(launch, settings->os_threads > 1);
        if (!launch.failed && launch.finished < launch.blocks) {
            kernels::ask_for_help(launch);
            worker.work(launch);
            kernels::end_help(launch);
        }
    }
    launch.guards.put_back(launch.fault);
    kernels::last_fault = launch.fault;
    if (launch.interrupted) launch.fault.kind = kernels::last_fault.kind = kernels::Fault::interrupted;
    if (!launch.failed && launch.fault.kind == kernels::Fault::none) return nullptr;
    error = std::move(launch.error);
    return error.c_str();
}

// Why the calling thread's last launch that failed did, where the processor or a guard said so.
extern "C" __attribute__((visibility("default"))) const kernels::Fault* kernels_fault() { return &kernels::last_fault; }
