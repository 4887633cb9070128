// How Python prepares a traced launch and takes its result (kernels/lens/cuda/run.py). The launch itself is the runtime's.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include <algorithm>

#include "kernels/thread_local_memory.h"
#include "recorder.h"

namespace kernels {
namespace lens {

namespace {

// As kernels/lens/cuda/launch_setup.py passes it.
struct RegionSetup {
    uint64_t begin, end, zone_begin, zone_end;
    uint32_t space, thread_owned;  // thread_owned: addresses are offsets into the library's thread-local memory
    uint32_t number, spared;  // spared: not 0 for what the compiler keeps there, which it accesses by so many bytes
};

struct LaunchSetup {
    const Kernel* kernel;
    uint64_t library;
    uint32_t threads, dynamic_shared_bytes, polls;
    uint64_t thread_local_at, regions, rows, sampled;  // rows: a region has one for each part of its zone
    const RegionSetup* row;
    const uint64_t* sample;
};

LaunchInfo launch_of(const LaunchSetup& given) {
    LaunchInfo launch = {};
    launch.threads = given.threads;
    launch.dynamic_shared_bytes = given.dynamic_shared_bytes;
    const ThreadLocal memory = move_thread_local(given.kernel->function, given.thread_local_at);
    for (uint64_t i = 0; i < given.rows; ++i) {
        const RegionSetup& one = given.row[i];
        // Without red zones what lies beyond the library's own memory is someone else's.
        const bool bounded = one.thread_owned && !memory.moved;
        if (bounded && one.zone_begin >= memory.bytes) continue;
        const uint64_t zone_end = bounded ? std::min(one.zone_end, memory.bytes) : one.zone_end;
        const uint64_t from = one.thread_owned ? memory.begin : 0;
        const Region region = {from + one.begin, from + one.end, from + one.zone_begin, from + zone_end,
                               Space(one.space), one.number};
        if (one.spared) launch.kept.push_back({region, one.spared});
        else launch.regions.push_back(region);
    }
    std::sort(launch.regions.begin(), launch.regions.end(),
              [](const Region& a, const Region& b) { return a.zone_begin < b.zone_begin; });
    launch.dynamic_shared = {0, 0, 0, 0, Space::shared, uint32_t(given.regions)};
    return launch;
}

uint64_t running_code(const void* context) {
    const mcontext_t& at = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
    return uint64_t(at.gregs[REG_RIP]);
#elif defined(__aarch64__)
    return at.pc;
#else
    return 0;
#endif
}

// An access that the processor refuses: the last event is it, but for what a thread does to its own stack.
void on_fault(int signal, siginfo_t* info, void* context) {
    ::signal(signal, SIG_DFL);
    const char* what = "an access to memory that is not there or not aligned";
    static char text[160];  // which line it is, ../cuda/run.py knows
    if (recorder.below_stack(info->si_addr)) {
        snprintf(text, sizeof text, "a stack overflow at code %u (recursion that goes too deep, or a local array that is too large)",
                 recorder.last_code());
        what = text;
        recorder.deliver();
    } else if (running_code(context) == uint64_t(info->si_addr) && recorder.has_code(info->si_addr)) {
        // An interrupt has forbidden the kernel to run (../../cuda/cpu/runtime/faults.cpp).
        snprintf(text, sizeof text, "interrupted at code %u", recorder.pc_of(info->si_addr));
        what = text;
        recorder.deliver();
    } else if (!recorder.running()) {
        return;  // the same instruction again, and the process dies
    } else if (!recorder.fault(info->si_addr)) {
        what = "a stack that does not hold what was put there (perhaps an index past a local array)";
        recorder.deliver();
    }
    recorder.original->services->fail(what, {nullptr, 0, nullptr});
}

void catch_faults() {
    static char stack[64 << 10];
    const stack_t own = {stack, 0, sizeof stack};
    sigaltstack(&own, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (int signal : {SIGSEGV, SIGBUS}) sigaction(signal, &action, nullptr);
}

}  // namespace

}  // namespace lens
}  // namespace kernels

#define EXPORTED extern "C" __attribute__((visibility("default")))

// The kernel to launch in place of the one given, on one OS thread.
EXPORTED const kernels::Kernel* kernels_lens_prepare(const kernels::lens::LaunchSetup* given) {
    using kernels::lens::recorder;
    static kernels::Kernel traced;
    std::vector<uint64_t> sample(given->sample, given->sample + given->sampled);
    recorder.prepare(*given->kernel, given->library, given->polls, kernels::lens::launch_of(*given), std::move(sample));
    kernels::lens::catch_faults();
    traced = *given->kernel;
    traced.run = [](const char* args) { recorder.run(args); };
    return &traced;
}

// What was seen, as JSON. It stays until the next call.
EXPORTED const char* kernels_lens_result() {
    static std::string text;
    text = kernels::lens::recorder.result();
    return text.c_str();
}
