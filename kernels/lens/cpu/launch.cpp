// How Python prepares a traced launch and takes its result (kernels/lens/run.py). The launch itself is the runtime's.
#include <signal.h>
#include <stdlib.h>

#include <algorithm>

#include "recorder.h"

namespace kernels {
namespace lens {

namespace {

// As kernels/lens/given.py passes it.
struct RegionGiven {
    uint64_t begin, end, zone_begin, zone_end;
    uint32_t space, of_thread;  // of_thread: addresses are offsets from `self`
};

struct Given {
    const Kernel* kernel;
    uint64_t library;
    uint32_t threads, dynamic_shared_bytes, polls;
    uint64_t regions, sampled;
    const RegionGiven* region;
    const uint64_t* sample;
};

LaunchInfo launch_of(const Given& given) {
    LaunchInfo launch = {};
    launch.threads = given.threads;
    launch.dynamic_shared_bytes = given.dynamic_shared_bytes;
    const uint64_t self = reinterpret_cast<uint64_t>(given.kernel->thread());
    for (uint64_t i = 0; i < given.regions; ++i) {
        const RegionGiven& one = given.region[i];
        const uint64_t from = one.of_thread ? self : 0;
        launch.regions.push_back({from + one.begin, from + one.end, from + one.zone_begin, from + one.zone_end,
                                  Space(one.space), uint32_t(i)});
    }
    std::sort(launch.regions.begin(), launch.regions.end(),
              [](const Region& a, const Region& b) { return a.zone_begin < b.zone_begin; });
    launch.dynamic_shared = {0, 0, 0, 0, Space::shared, uint32_t(given.regions)};
    return launch;
}

// An access that the processor refuses: the last event is it, but for what a thread does to its own stack.
void on_fault(int signal, siginfo_t* info, void*) {
    ::signal(signal, SIG_DFL);
    const char* what = "an access to memory that is not there or not aligned";
    if (recorder.below_stack(info->si_addr)) {
        what = "a stack overflow (recursion that goes too deep, or a local array that is too large)";
        recorder.deliver();
    } else if (!recorder.fault()) {
        return;  // the same instruction again, and the process dies
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
EXPORTED const kernels::Kernel* kernels_lens_prepare(const kernels::lens::Given* given) {
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
