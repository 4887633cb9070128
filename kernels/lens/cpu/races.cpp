#include "races.h"

#include "kernels/abi.h"

#include <algorithm>

namespace kernels {
namespace lens {

Races::Races(const LaunchInfo& launch, Findings& findings) : launch(launch), findings(findings) {
    reset_time();
    numbers.push_back(0);  // of no block: an actor of 0 is no one
    global.resize(launch.regions.size());
    for (const Region& region : launch.regions)
        if (region.space == Space::global) global[region.number] = Shadow(region.begin, region.end);
}

void Races::block_begins(const BlockInfo& block) {
    const uint32_t index = uint32_t(numbers.size());
    numbers.push_back(block.number);
    blocks.push_back(std::unique_ptr<Under>(new Under{block.number, BlockOrder(index, launch.threads), {}, {}, {}, {}}));
    Shadows& shadows = blocks.back()->shadows;
    if (spare.empty()) {
        shadows.shared.resize(launch.numbered.size());
        shadows.all.resize(launch.numbered.size());
    } else {
        shadows = std::move(spare.back());
        spare.pop_back();
    }
    for (size_t number = 0; number < launch.numbered.size(); ++number) {
        const Region& region = *launch.numbered[number];
        const bool shared = region.space == Space::shared;
        if (!shared && region.space != Space::global) continue;
        Shadow& shadow = shared ? shadows.shared[number] : global[number];
        if (!shadow.is_of(region.begin)) shadow = Shadow(region.begin, region.end);
        const uint32_t begun = shared ? blocks.back()->order.begun : 1;
        shadows.all[number] = {&shadow, region.begin, region.end, begun, shared};
    }
}

void Races::block_ends(const BlockInfo& block) {
    Under& under = under_way(block);
    spare.push_back(std::move(under.shadows));
    auto is = [&](const std::unique_ptr<Under>& one) { return one.get() == &under; };
    blocks.erase(std::find_if(blocks.begin(), blocks.end(), is));
}

Races::Under& Races::under_way(const BlockInfo& block) {
    if (blocks.back()->number == block.number) return *blocks.back();
    auto is = [&](const std::unique_ptr<Under>& one) { return one->number == block.number; };
    return **std::find_if(blocks.begin(), blocks.end(), is);
}

void Races::synchronise(Under& block, uint32_t thread, const Event& event) {
    BlockOrder& order = block.order;
    switch (event.kind()) {
        case Kind::barrier_arrived: order.barrier(thread, false, false); break;
        case Kind::barrier_passed: order.barrier(thread, true, Barrier(event.extra()) == Barrier::grid); break;
        case Kind::warp_arrived: order.collective(thread, false, uint32_t(event.address), event.extra()); break;
        case Kind::warp_passed: order.collective(thread, true, uint32_t(event.address), event.extra()); break;
        case Kind::tile_arrived: order.tile(thread, false, event.address, event.extra()); break;
        case Kind::tile_passed: order.tile(thread, true, event.address, event.extra()); break;
        case Kind::fence: order.fence(thread, Scope(event.extra())); break;
        case Kind::condition_passed: order.condition(thread); break;
        case Kind::copies_committed:
        case Kind::copies_waited: land(block, thread, event); break;
        default: break;
    }
}

static bool atomic(const Record& record) { return is_atomic(record.kind()); }

static Kind remembered(Kind kind, bool atomic) {
    if (!atomic || is_atomic(kind)) return kind;
    return kind == Kind::read ? Kind::atomic_read : Kind::atomic_write;
}

void Races::check(const Access& mine, Shadow::Page& page, uint32_t index, uint64_t address) {
    const Self& self = mine.self;
    const uint32_t value = mine.event.kind() == Kind::write && !mine.atomic ? value_of(mine.event, mine.values, address, page.shift) : 0;
    const Record record(self.actor, self.clock, mine.event.pc(), remembered(mine.event.kind(), mine.atomic),
                        mine.event.kind() == Kind::copy_to, value);
    const Record* write = page.write ? &page.write[index] : nullptr;
    if (write && write->clock() >= mine.ground.begun) {
        // Of two atomics it does not matter which was first: those that wait for a lock are many.
        if (write->in_flight() || (!(mine.atomic && atomic(*write)) && !self.knows.of(write->actor(), write->clock())))
            check_write(mine, *write, value, address);
    } else if (mine.ground.shared && (!mine.write || mine.event.kind() == Kind::atomic)) {
        report(Wrong::uninitialised, mine, nullptr, address);
    }
    if (!mine.write) return remember_read(mine, page, index, record);
    if (page.read) {
        if (mine.event.kind() == Kind::atomic && !(mine.event.how() & overwrites) && page.read[index].actor() == self.actor)
            findings.forgive_read_before_atomic(page.read[index].pc());
        check_read(mine, page.read[index], address);
        if (page.other) check_read(mine, page.other[index], address);
    }
    Shadow::in(page, page.write, index) = record;
}

// An access after a write of another thread that is not known of, or of a copy.
void Races::check_write(const Access& mine, const Record& write, uint32_t value, uint64_t address) {
    const bool known = mine.self.knows.of(write.actor(), write.clock());
    if (!known && !(mine.atomic && atomic(write))) {
        const bool plain = write.kind() == Kind::write && mine.event.kind() == Kind::write;
        if (plain && write.value() == value) return;
        return report(Wrong::race, mine, &write, address);
    }
    if (write.in_flight()) report(Wrong::in_flight, mine, &write, address);
}

// A write after a read, which is forgotten: what comes later is in conflict with the write.
inline void Races::check_read(const Access& mine, Record& read, uint64_t address) {
    if (!read.clock()) return;
    if (read.clock() >= mine.ground.begun && !(mine.atomic && atomic(read)) &&
        !mine.self.knows.of(read.actor(), read.clock()))
        report(Wrong::race, mine, &read, address);
    read.set_clock(0);
}

inline void Races::remember_read(const Access& mine, Shadow::Page& page, uint32_t index, const Record& record) {
    Record& read = Shadow::in(page, page.read, index);
    auto gone = [&](const Record& one) {
        return one.clock() < mine.ground.begun || mine.self.knows.of(one.actor(), one.clock());
    };
    if (gone(read)) {
        read = record;
        return;
    }
    // Two of one warp are as good as one: the second is kept for another warp's.
    Record& other = Shadow::in(page, page.other, index);
    const uint32_t warp = mine.self.actor / 32;
    if (warp == read.actor() / 32 ? other.actor() == mine.self.actor || other.clock() < mine.ground.begun
                                  : other.actor() / 32 == read.actor() / 32 || gone(other))
        other = record;
}

void Races::access(Under& block, Self& self, const Event& event, const uint32_t* values) {
    if (event.extra() == Event::no_region) return;
    const Ground& ground = block.shadows.all[event.extra()];
    if (event.address < ground.begin || event.address + event.size() > ground.end) return;
    const bool shared = ground.shared;
    // In global memory volatile is how blocks wait for each other; in shared memory it is no way for a warp to do so.
    const bool plain = event.kind() == Kind::read || event.kind() == Kind::write;
    const bool waits = plain && !shared && event.how() & is_volatile;
    const bool atomic = is_atomic(event.kind()) || waits;
    const bool write = is_write(event.kind());
    if (atomic) {
        const Kind kind = !waits ? event.kind() : write ? Kind::atomic_write : Kind::atomic_read;
        block.order.atomic(self.thread, kind, !waits && event.how() & is_release, event.address, shared ? block.order.places : places);
        self = Self(block, self.thread);
    }
    const Access mine = {self, event, ground, values, write, atomic};
    ground.shadow->visit(event.address, event.size(), [&](Shadow::Page& page, uint32_t index, uint64_t address) {
        check(mine, page, index, address);
    });
    if (event.kind() == Kind::copy_to) {
        if (block.open.empty()) block.open.resize(launch.threads), block.own.resize(launch.threads);
        block.open[self.thread].push_back({event.address, event.size()});
    }
}

// Copies are in flight from their issue until someone waits for them.
void Races::land(Under& block, uint32_t thread, const Event& event) {
    if (block.open.empty()) return;
    const uint64_t owner = event.address;
    std::deque<Batch>& queue = owner ? block.queues[owner] : block.own[thread];
    if (event.kind() == Kind::copies_committed) {
        if (owner && block.open[thread].empty()) return;
        queue.push_back(std::move(block.open[thread]));
        block.open[thread].clear();
        return;
    }
    for (; queue.size() > event.extra(); queue.pop_front()) {
        for (const Copy& copy : queue.front()) {
            const Region* region = launch.region(copy.to);
            Shadow* shadow = region ? block.shadows.all[region->number].shadow : nullptr;
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
    finding.second = {numbers[block_of(mine.self.actor)], mine.self.thread, mine.event.pc(), mine.event.kind()};
    if (earlier)
        finding.first = {numbers[block_of(earlier->actor())], thread_of(earlier->actor()), earlier->pc(), earlier->kind()};
    finding.region = launch.region(mine.event);
    finding.address = address;
    finding.size = mine.event.size();
    findings.add(wrong, finding);
}

}  // namespace lens
}  // namespace kernels
