#include "fiber.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>

namespace kernels {

static constexpr size_t guard_bytes = 1 << 16;  // a whole page, also where pages have 64 KiB
// A thread of a GPU has up to 512 KiB of local memory; the rest is for calls of ours.
static constexpr size_t stack_bytes = (512 + 64) << 10;
// Tops of stacks at one distance from each other would share a few sets of the caches, and every switch would miss: each
// begins a little lower than the last.
static constexpr size_t stagger_bytes = 16 << 10, stagger = 448;
static constexpr size_t mapping_bytes = guard_bytes + stack_bytes + stagger_bytes;
// A guard makes two mappings of a stack, and Linux gives a process 65,530 unless it is told otherwise. Beyond half of them,
// which only grids whose blocks wait for each other need, a stack has its guard while it is run on: two calls of the system
// a switch. Some are left for libraries.
static const int most_guards = [] {
    int mappings = 65530;
    // By C's functions: C++'s streams end the process here where it has a second copy of their library.
    if (FILE* limit = fopen("/proc/sys/vm/max_map_count", "r")) {
        if (fscanf(limit, "%d", &mappings) != 1) mappings = 65530;
        fclose(limit);
    }
    return std::max(mappings - 8192, 0) / 2;
}();
static std::atomic<int> guards{0};

Fiber::Fiber(void (*entry)(), size_t number) : entry(entry), lower(number * stagger % stagger_bytes) {
    // Pages of the stack are taken from the system when first touched. An overflow meets the guard.
    void* memory = mmap(nullptr, mapping_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return;
    mapping = static_cast<char*>(memory);
    guarded = guards.fetch_add(1) < most_guards;
    if (guarded)
        mprotect(mapping, guard_bytes, PROT_NONE);
    else {
        --guards;
        madvise(mapping, mapping_bytes, MADV_NOHUGEPAGE);  // neighbours are one mapping then
    }
    restart();
}

Fiber::~Fiber() {
    if (mapping) munmap(mapping, mapping_bytes);
    if (guarded) --guards;
}

void Fiber::guard_while_running(bool runs) {
    if (!guarded) mprotect(mapping, guard_bytes, runs ? PROT_NONE : PROT_READ | PROT_WRITE);
}

void Fiber::restart() { prepare_context(context, mapping + guard_bytes, stack_bytes + stagger_bytes - lower, entry); }

bool Fiber::holds(const void* address) const {
    return uintptr_t(address) - uintptr_t(mapping) < mapping_bytes;
}

const void* Fiber::readable(const void* address) const { return std::max(address, static_cast<const void*>(mapping + guard_bytes)); }

Fiber* FiberPool::take() {
    if (idle.empty()) {
        std::unique_ptr<Fiber> fiber(new Fiber(entry, all.size()));
        if (!fiber->mapping) return nullptr;
        idle.push_back(fiber.get());
        all.push_back(std::move(fiber));
    }
    Fiber* fiber = idle.back();
    idle.pop_back();
    return fiber;
}

void FiberPool::restart_all() {
    idle.clear();
    for (auto& fiber : all) {
        fiber->restart();
        idle.push_back(fiber.get());
    }
}

}  // namespace kernels
