#include "recorder.h"

#include <algorithm>

#include "bounds.h"
#include "races.h"

namespace kernels {
namespace lens {

// Before a launch nothing is recorded: a library's own constructors are instrumented too.
Thread Recorder::nobody = [] {
    Thread thread = {};
    thread.starting = true;
    return thread;
}();
Recorder recorder;

const Region* LaunchInfo::region(uint64_t address) const {
    if (address - dynamic_shared.zone_begin < dynamic_shared.zone_end - dynamic_shared.zone_begin) return &dynamic_shared;
    auto after = std::upper_bound(regions.begin(), regions.end(), address,
                                  [](uint64_t at, const Region& region) { return at < region.zone_begin; });
    if (after == regions.begin()) return nullptr;
    --after;
    return address < after->zone_end ? &*after : nullptr;
}

void Recorder::prepare(const Kernel& traced, uint64_t library, bool waits, LaunchInfo info, std::vector<uint64_t> chosen) {
    kernel = traced;
    variables = kernel.thread();
    base = library;
    polls = waits;
    launch = std::move(info);
    sample = std::move(chosen);
    blocks.clear();
    consumers.clear();
    next = buffer;
    auto own = std::make_unique<Counters>(launch);
    counters = own.get();
    consumers.push_back(std::move(own));
    auto findings = std::make_unique<Findings>();
    consumers.push_back(std::make_unique<Bounds>(launch, *findings));
    consumers.push_back(std::make_unique<Races>(launch, *findings));
    consumers.push_back(std::move(findings));
}

void Recorder::turn() {
    deliver();
    thread = self->running;
}

void Recorder::deliver() {
    if (next == buffer) return;
    for (auto& consumer : consumers) consumer->ran(*current.block, thread, buffer, next);
    next = buffer;
}

void Recorder::branch(const void* caller) {
    append(Kind::branch, 0, 0, caller);
    if (--branches >= 0 || self->starting) return;
    branches = 1024;
    if (polls) self->runtime->poll({nullptr, 0, "a loop"});
    deliver();
    const uint32_t number = self->running;
    if (!counters->full(*current.block, number)) return;
    // Its stream is long: the rest of the warp catches up, so that what they did together can be counted and forgotten.
    struct Wait {
        const BlockInfo& block;
        uint32_t thread;
    } wait = {*current.block, number};
    auto drained = [](const void* state) {
        const Wait& one = *static_cast<const Wait*>(state);
        return !recorder.counters->full(one.block, one.thread);
    };
    const Current saved = current;
    pause();
    original->services->wait_until(drained, &wait, "a wait for the rest of the warp", {nullptr, 0, nullptr});
    go_on(saved);
}

void Recorder::run(const char* args) {
    if (variables->runtime != recorded) {
        original = variables->runtime;
        recorded = variables->runtime = recording(*original);
    }
    const uint3 index = variables->block_index;
    const dim3 grid = variables->grid_dim;
    const uint64_t number = index.x + uint64_t(grid.x) * (index.y + uint64_t(grid.y) * index.z);
    if (!sample.empty() && !std::binary_search(sample.begin(), sample.end(), number)) {
        variables->next = variables->count;
        return;
    }
    // Its first fiber begins a block, the last to leave ends it.
    auto found = blocks.find(number);
    const bool begins = found == blocks.end();
    if (begins) found = blocks.emplace(number, Under{{number}, 0}).first;
    // This frame is among the first of the fiber's stack, which ends with a page.
    const uint64_t top = (reinterpret_cast<uint64_t>(__builtin_frame_address(0)) | 4095) + 1;
    const Current own = {&found->second.info, top - stack_bytes};
    go_on(own);
    if (begins)
        for (auto& consumer : consumers) consumer->block_begins(*own.block);
    ++found->second.fibers;
    kernel.run(args);
    pause();
    if (--found->second.fibers == 0 && variables->next >= variables->count) {
        for (auto& consumer : consumers) consumer->block_ends(*own.block);
        blocks.erase(found);
    }
}

void Recorder::pause() {
    deliver();
    self = &nobody;
}

// The fiber that goes on is of this block, whose dynamic shared memory is its own.
void Recorder::go_on(const Current& saved) {
    current = saved;
    self = variables;
    Region& region = launch.dynamic_shared;
    region.begin = region.zone_begin = reinterpret_cast<uint64_t>(variables->dynamic_shared);
    region.end = region.begin + launch.dynamic_shared_bytes;
    region.zone_end = region.begin + (256 << 10);  // runtime/block.cpp
}

bool Recorder::fault() {
    if (next == buffer || self->starting) return false;
    const Event last = *--next;
    deliver();
    for (auto& consumer : consumers) consumer->faulted(*current.block, thread, last);
    return true;
}

bool Recorder::below_stack(const void* address) const {
    constexpr uint64_t far = 4 << 20;  // of a local array
    const uint64_t at = reinterpret_cast<uint64_t>(address);
    return !self->starting && current.stack - at - 1 < far && !launch.region(at);
}

std::string Recorder::result() {
    std::string text;
    for (auto& consumer : consumers) {
        const std::string member = consumer->result();
        if (!member.empty()) text += (text.empty() ? "{" : ", ") + member;
    }
    self = &nobody;
    return text + "}";
}

}  // namespace lens
}  // namespace kernels
