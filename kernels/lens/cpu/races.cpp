#include "races.h"

#include "kernels/abi.h"

#include <algorithm>

namespace kernels {
namespace lens {

Races::Races(const LaunchInfo& launch, Findings& findings) : launch(launch), findings(findings), seen(launch) {
    reset_time();
    global.resize(launch.regions.size());
    for (const Region& region : launch.regions)
        if (region.space == Space::global) global[region.number] = Shadow(region.begin, region.end);
}

void Races::block_begins(const BlockInfo& block) {
    const uint32_t index = uint32_t(numbers.size());
    numbers.push_back(block.number);
    blocks.push_back(std::unique_ptr<Under>(new Under{block.number, BlockOrder(index, launch.threads)}));
    if (spare.empty()) {
        blocks.back()->shared.resize(launch.regions.size() + 1);
    } else {
        blocks.back()->shared = std::move(spare.back());
        spare.pop_back();
    }
}

void Races::block_ends(const BlockInfo& block) {
    Under& under = under_way(block);
    spare.push_back(std::move(under.shared));
    auto is = [&](const std::unique_ptr<Under>& one) { return one.get() == &under; };
    blocks.erase(std::find_if(blocks.begin(), blocks.end(), is));
}

Races::Under& Races::under_way(const BlockInfo& block) {
    if (blocks.back()->number == block.number) return *blocks.back();
    auto is = [&](const std::unique_ptr<Under>& one) { return one->number == block.number; };
    return **std::find_if(blocks.begin(), blocks.end(), is);
}

void Races::ran(const BlockInfo& info, uint32_t thread, const Event* first, const Event* last) {
    Under& block = under_way(info);
    for (const Event* event = first; event != last; ++event) {
        if (event->kind == Kind::branch) continue;
        if (is_access(event->kind))
            access(block, thread, *event);
        else
            synchronise(block, thread, *event);
    }
}

void Races::synchronise(Under& block, uint32_t thread, const Event& event) {
    BlockOrder& order = block.order;
    switch (event.kind) {
        case Kind::barrier_arrived: order.barrier(thread, false, false); break;
        case Kind::barrier_passed: order.barrier(thread, true, Barrier(event.extra) == Barrier::grid); break;
        case Kind::warp_arrived: order.collective(thread, false, uint32_t(event.address), event.extra); break;
        case Kind::warp_passed: order.collective(thread, true, uint32_t(event.address), event.extra); break;
        case Kind::tile_arrived: order.tile(thread, false, event.address, event.extra); break;
        case Kind::tile_passed: order.tile(thread, true, event.address, event.extra); break;
        case Kind::fence: order.fence(thread, Scope(event.extra)); break;
        case Kind::condition_passed: order.condition(thread); break;
        case Kind::copies_committed:
        case Kind::copies_waited: land(block, thread, event); break;
        default: break;
    }
}

Shadow* Races::shadow_of(Under& block, const Region& region) {
    if (region.space == Space::global) return &global[region.number];
    if (region.space != Space::shared) return nullptr;
    Shadow& shadow = block.shared[region.number];
    if (shadow.begins_at() != (region.begin & ~uint64_t(15))) shadow = Shadow(region.begin, region.end);
    return &shadow;
}

// The value is what the thread left when it last stopped, which is close enough to tell writes of the same.
static uint32_t value_at(uint64_t address, uint32_t shift) {
    if (shift == 2) return *reinterpret_cast<const uint32_t*>(address);
    return shift == 1 ? *reinterpret_cast<const uint16_t*>(address) : *reinterpret_cast<const uint8_t*>(address);
}

static bool atomic(const Record& record) { return is_atomic(record.kind()); }

static Kind remembered(Kind kind, bool atomic) {
    if (!atomic || is_atomic(kind)) return kind;
    return kind == Kind::read ? Kind::atomic_read : Kind::atomic_write;
}

inline void Races::check(const Access& mine, Shadow::Page& page, uint32_t index, uint64_t address) {
    const uint32_t value = mine.write && !mine.atomic ? value_at(address, page.shift) : 0;
    const Record record(mine.actor, mine.clock, mine.event.pc, remembered(mine.event.kind, mine.atomic),
                        mine.event.kind == Kind::copy_to, value);
    const Record* write = page.write ? &page.write[index] : nullptr;
    if (write && write->clock() >= mine.begun) {
        if (write->actor() != mine.actor || write->in_flight()) check_write(mine, *write, value, address);
    } else if (mine.shared && (!mine.write || mine.event.kind == Kind::atomic)) {
        report(Wrong::uninitialised, mine, nullptr, address);
    }
    if (!mine.write) return remember_read(mine, page, index, record);
    if (mine.event.kind == Kind::atomic && page.read && page.read[index].actor() == mine.actor)
        findings.forgive_read_before_atomic(page.read[index].pc());
    if (page.read) check_read(mine, page.read[index], address);
    if (page.other) check_read(mine, page.other[index], address);
    Shadow::in(page, page.write, index) = record;
}

// An access after a write of another thread, or of a copy.
inline void Races::check_write(const Access& mine, const Record& write, uint32_t value, uint64_t address) {
    const bool known = write.actor() == mine.actor || mine.block.order.knows(mine.thread, write.actor(), write.clock());
    if (known && !write.in_flight()) return;
    if (!known && !(mine.atomic && atomic(write))) {
        const bool plain = write.kind() == Kind::write && mine.event.kind == Kind::write;
        if (plain && write.value() == value) return;
        return report(Wrong::race, mine, &write, address);
    }
    if (write.in_flight()) report(Wrong::in_flight, mine, &write, address);
}

// A write after a read, which is forgotten: what comes later is in conflict with the write.
inline void Races::check_read(const Access& mine, Record& read, uint64_t address) {
    if (read.clock() >= mine.begun && read.actor() != mine.actor && !(mine.atomic && atomic(read)) &&
        !mine.block.order.knows(mine.thread, read.actor(), read.clock()))
        report(Wrong::race, mine, &read, address);
    read.set_clock(0);
}

inline void Races::remember_read(const Access& mine, Shadow::Page& page, uint32_t index, const Record& record) {
    Record& read = Shadow::in(page, page.read, index);
    auto gone = [&](const Record& one) {
        return one.actor() == mine.actor || one.clock() < mine.begun ||
               mine.block.order.knows(mine.thread, one.actor(), one.clock());
    };
    if (gone(read)) {
        read = record;
        return;
    }
    // Two of one warp are as good as one: the second is kept for another warp's.
    Record& other = Shadow::in(page, page.other, index);
    const uint32_t warp = mine.actor / 32;
    if (warp == read.actor() / 32 ? other.actor() == mine.actor || other.clock() < mine.begun
                                  : other.actor() / 32 == read.actor() / 32 || gone(other))
        other = record;
}

void Races::access(Under& block, uint32_t thread, const Event& event) {
    const Region* region = seen.of(event);
    if (!region || event.address < region->begin || event.address + event.size > region->end) return;
    Shadow* shadow = shadow_of(block, *region);
    if (!shadow) return;
    const bool shared = region->space == Space::shared;
    // In global memory volatile is how blocks wait for each other; in shared memory it is no way for a warp to do so.
    const bool plain = event.kind == Kind::read || event.kind == Kind::write;
    const bool waits = plain && !shared && event.extra & is_volatile;
    const bool atomic = is_atomic(event.kind) || waits;
    const bool write = is_write(event.kind);
    if (atomic) {
        const Kind kind = !waits ? event.kind : write ? Kind::atomic_write : Kind::atomic_read;
        block.order.atomic(thread, kind, waits ? 0 : event.extra, event.address, shared ? block.order.places : places);
    }
    const Access mine = {block, event, *region, thread, block.order.actor(thread), block.order.stamp(thread),
                         shared ? block.order.begun : 1, shared, write, atomic};
    shadow->visit(event.address, event.size, [&](Shadow::Page& page, uint32_t index, uint64_t address) {
        check(mine, page, index, address);
    });
    if (event.kind == Kind::copy_to) {
        if (block.open.empty()) block.open.resize(launch.threads), block.own.resize(launch.threads);
        block.open[thread].push_back({event.address, event.size});
    }
}

// Copies are in flight from their issue until somebody waits for them.
void Races::land(Under& block, uint32_t thread, const Event& event) {
    if (block.open.empty()) return;
    const uint64_t owner = event.address;
    std::deque<Batch>& queue = owner ? block.queues[owner] : block.own[thread];
    if (event.kind == Kind::copies_committed) {
        if (owner && block.open[thread].empty()) return;
        queue.push_back(std::move(block.open[thread]));
        block.open[thread].clear();
        return;
    }
    for (; queue.size() > event.extra; queue.pop_front()) {
        for (const Copy& copy : queue.front()) {
            const Event landed = {copy.to, event.pc, Kind::copy_to, uint8_t(copy.bytes), 0};
            const Region* region = launch.region(landed.address);
            Shadow* shadow = region ? shadow_of(block, *region) : nullptr;
            if (!shadow) continue;
            shadow->visit(copy.to, copy.bytes, [&](Shadow::Page& page, uint32_t index, uint64_t) {
                Record& write = Shadow::in(page, page.write, index);
                if (!write.in_flight()) return;
                write.land();
                // A thread's own wait makes its copies its own writes of now; a barrier's phase, those of who issued them.
                if (!owner) write.set_clock(block.order.stamp(thread));
            });
        }
    }
}

void Races::report(Wrong wrong, const Access& mine, const Record* earlier, uint64_t address) {
    Finding finding;
    finding.second = {numbers[block_of(mine.actor)], mine.thread, mine.event.pc, mine.event.kind};
    if (earlier)
        finding.first = {numbers[block_of(earlier->actor())], thread_of(earlier->actor()), earlier->pc(), earlier->kind()};
    finding.region = &mine.region;
    finding.address = address;
    finding.size = mine.event.size;
    findings.add(wrong, finding);
}

}  // namespace lens
}  // namespace kernels
