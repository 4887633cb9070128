#include "static_shared.h"

#include <stdint.h>
#include <sys/mman.h>

#include "kernels/thread_local_memory.h"
#include "worker.h"

namespace kernels {

static constexpr size_t shared_guard_bytes = 1 << 20, room_step = 64 << 10;  // a multiple of a page, also where pages have 64 KiB

GuardedShared guard_static_shared_of(const void* function) {
    const ThreadLocal now = thread_local_of(function);
    if (!now.bytes) return {};
    const size_t room = (now.bytes + room_step - 1) / room_step * room_step;
    void* const mapped = mmap(nullptr, room + 2 * shared_guard_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return {};
    char* const memory = static_cast<char*>(mapped) + shared_guard_bytes;
    // Refused where the process has no mappings left: then there are no guards.
    const bool ours = !mprotect(memory, room, PROT_READ | PROT_WRITE);
    char* const begin = memory + room - (now.bytes + now.alignment - 1) / now.alignment * now.alignment;
    if (ours && move_thread_local(function, uint64_t(begin)).moved) return {begin, now.bytes};
    munmap(mapped, room + 2 * shared_guard_bytes);
    return {};
}

void Worker::guard_static_shared() {
    const GuardedShared made = guard_static_shared_of(launch->kernel->function);
    if (made.bytes) static_shared.push_back(made);
    thread = variables();
    thread->guarded = true;
}

const char* Worker::near_static_shared(const void* address) const {
    for (const GuardedShared& one : static_shared)
        if (uint64_t(address) - uint64_t(one.begin - shared_guard_bytes) < one.bytes + 2 * shared_guard_bytes) return one.begin;
    return nullptr;
}

}  // namespace kernels
