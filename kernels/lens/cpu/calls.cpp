// The kernel's calls of the runtime, recorded and passed on. Other threads may run meanwhile.
#include <algorithm>

#include "kernels/returns.h"
#include "recorder.h"

namespace kernels {
namespace lens {

// What was current before a call that may switch fibers is current again after it.
template <class Call>
static auto passed_on(Call call) {
    const Current saved = recorder.current;
    recorder.pause();
    struct Restore {
        const Current& saved;
        ~Restore() { recorder.go_on(saved); }
    } restore = {saved};
    return call();
}

#define PROBE extern "C" __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)

PROBE KERNELS_RETURNS_BY_A_JUMP
uint32_t kernels_lens_barrier(Barrier kind, uint32_t value, const char* file, int line, const char* call) {
    recorder.append(Kind::barrier_arrived, 0, CALLER, uint32_t(kind));
    const uint32_t number = recorder.arrive();
    const uint32_t result = passed_on([&] { return recorder.original->barrier(kind, value, file, line, call); });
    recorder.before_passed(number, CALLER);
    recorder.append(Kind::barrier_passed, 0, CALLER, uint32_t(kind));
    return result;
}

PROBE KERNELS_RETURNS_BY_A_JUMP
uint64_t kernels_lens_collective(uint64_t kind_line, uint32_t mask, uint64_t value, uint64_t argument_width,
                                 const char* file, const char* call) {
    const uint32_t kind = uint32_t(kind_line);
    recorder.append(Kind::warp_arrived, mask, CALLER, kind);
    const uint64_t result =
        passed_on([&] { return recorder.original->collective(kind_line, mask, value, argument_width, file, call); });
    recorder.append(Kind::warp_passed, mask, CALLER, kind);
    return result;
}

// A thread has returned from the kernel; the next may begin without a call of the runtime.
PROBE void kernels_lens_returned() { recorder.close(); }

KERNELS_RETURNS_BY_A_JUMP
static void tile(uint32_t first, uint32_t count, const Site& site) {
    recorder.append(Kind::tile_arrived, first, CALLER, count);
    passed_on([&] { recorder.original->tile(first, count, site); });
    recorder.append(Kind::tile_passed, first, CALLER, count);
}

static void poll(const Site& site) {
    passed_on([&] { recorder.original->poll(site); });
    recorder.append(Kind::polled, 0, CALLER);
}

static void wait_until(bool (*ready)(const void*), const void* state, const char* name, Site site) {
    passed_on([&] { recorder.original->services->wait_until(ready, state, name, site); });
    recorder.append(Kind::condition_passed, 0, CALLER);
}

static void copy(void* to, const void* from, uint32_t bytes, uint32_t zeros) {
    const bool whole = bytes == 4 || bytes == 8 || bytes == 16;
    const uint32_t part = whole ? bytes : bytes % 4 ? 1 : 4;
    for (uint32_t at = 0; at < bytes; at += part) {
        // What zeros take the place of is not read, and may lie anywhere.
        if (at + zeros < bytes) {
            const uint32_t read = std::min(part, bytes - zeros - at);
            recorder.append_access(Kind::copy_from, reinterpret_cast<uint64_t>(from) + at, read, CALLER);
        }
        recorder.append_access(Kind::copy_to, reinterpret_cast<uint64_t>(to) + at, part, CALLER);
    }
    recorder.original->services->copy(to, from, bytes, zeros);
}

static void commit(const void* owner) {
    recorder.append(Kind::copies_committed, reinterpret_cast<uint64_t>(owner), CALLER);
    recorder.original->services->commit(owner);
}

static void land(const void* owner, uint32_t keep) {
    recorder.original->services->land(owner, keep);
    recorder.append(Kind::copies_waited, reinterpret_cast<uint64_t>(owner), CALLER, keep);
}

static void fail(const char* what, Site site) {
    recorder.deliver();
    recorder.original->services->fail(what, site);
}

const Runtime* recording(const Runtime& original) {
    static Runtime runtime;
    static Services services;
    services = *original.services;
    services.fail = fail;
    services.wait_until = wait_until;
    services.copy = copy;
    services.commit = commit;
    services.land = land;
    runtime = original;
    runtime.tile = tile;
    runtime.poll = poll;
    runtime.services = &services;
    return &runtime;
}

}  // namespace lens
}  // namespace kernels
