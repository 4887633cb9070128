#include "order.h"

#include <algorithm>
#include <map>

#include "kernels/abi.h"

namespace kernels {
namespace lens {

uint32_t now = 0;
static std::vector<uint32_t> grid_clocks;  // of the grid's barriers

void reset_time() {
    now = 0;
    grid_clocks.clear();
}

void add(Parts& parts, const Part& part) {
    for (Part& known : parts)
        if (known.log == part.log) return void(known.length = std::max(known.length, part.length));
    parts.push_back(part);
}

void add(Parts& parts, const Parts& more) {
    for (const Part& part : more) add(parts, part);
}

void Log::append(Entry entry) {
    if (!entries.empty() && entries.back().near == entry.near && entries.back().far == entry.far) return;
    const uint32_t number = uint32_t(entries.size());
    const Released& any = entry.near ? *entry.near : *entry.far;
    if (any.actor != ~0u) block_entries[block_of(any.actor)].push_back(number);
    for (const auto& half : {entry.near, entry.far})
        if (half && !half->parts.empty() && (chained.empty() || chained.back() != number)) chained.push_back(number);
    entries.push_back(std::move(entry));
}

BlockOrder::BlockOrder(uint32_t index, uint32_t count) : index(index), begun(++now), floor(begun), threads(count) {
    for (ThreadOrder& one : threads) one.block_clock = begun;
}

Acquired& BlockOrder::acquired_by(uint32_t thread) {
    if (acquired.empty()) acquired.resize(threads.size());
    return acquired[thread];
}

std::shared_ptr<const Released> BlockOrder::released_by(uint32_t thread) {
    ThreadOrder& me = threads[thread];
    auto what = std::make_shared<Released>();
    what->actor = actor(thread);
    what->clock = stamp(thread);
    what->block_clock = me.block_clock;
    what->grid_clock = grid_clock;
    if (!lanes.empty()) what->lanes.assign(row(thread), row(thread) + 32);
    if (!acquired.empty()) what->parts = acquired[thread].parts;
    me.clock = ++now;
    return what;
}

// Everybody who enters is there before anybody leaves.
void BlockOrder::enter(uint32_t thread, Meeting& meeting) {
    if (acquired.empty()) return;
    const Acquired& me = acquired[thread];
    if (!me.parts.empty()) add(meeting.parts, me.parts);
    if (!me.published_near && !me.published_far) return;
    if (!meeting.published) meeting.published = std::make_shared<Log>();
    meeting.published->append({me.published_near, me.published_far});
}

void BlockOrder::leave(uint32_t thread, const Meeting& meeting) {
    if (!meeting.parts.empty()) add(acquired_by(thread).parts, meeting.parts);
    if (!meeting.published) return;
    auto what = std::make_shared<Released>();
    what->parts = {{meeting.published, meeting.published->entries.size()}};
    acquired_by(thread).published_near = acquired_by(thread).published_far = what;
}

void BlockOrder::barrier(uint32_t thread, bool passed, bool whole_grid) {
    ThreadOrder& me = threads[thread];
    if (!passed) return enter(thread, at_barrier);
    if (me.barriers++ == barriers) {
        ++barriers;
        barrier_clock = floor = ++now;
        passed_barrier = std::move(at_barrier);
        at_barrier = {};
    }
    me.block_clock = barrier_clock;
    leave(thread, passed_barrier);
    if (!whole_grid) return;
    if (me.grid_barriers++ == grid_clocks.size()) grid_clocks.push_back(++now);
    grid_clock = std::max(grid_clock, grid_clocks[me.grid_barriers - 1]);
    floor = std::max(floor, grid_clock);
}

void BlockOrder::tile(uint32_t thread, bool passed, uint64_t first, uint64_t count) {
    auto same = [&](const TileOrder& one) { return one.first == first && one.count == count; };
    auto found = std::find_if(tiles.begin(), tiles.end(), same);
    if (found == tiles.end()) found = tiles.insert(tiles.end(), {first, count, std::make_shared<Log>()});
    if (passed) {
        add(acquired_by(thread).parts, {found->log, found->log->entries.size()});
    } else {
        const auto what = released_by(thread);
        found->log->append({what, what});
    }
}

void BlockOrder::fence(uint32_t thread, Scope scope) {
    Acquired& me = acquired_by(thread);
    me.published_near = released_by(thread);
    if (scope == Scope::device) me.published_far = me.published_near;
}

// Who arrived at a cuda::barrier is not seen: whoever passes is taken to know all that the block has done.
void BlockOrder::condition(uint32_t thread) {
    floor = ++now;
    threads[thread].block_clock = floor;
}

void BlockOrder::atomic(uint32_t thread, Kind kind, bool release, uint64_t address, Places& by_address) {
    const bool writes = kind != Kind::atomic_read;
    const bool published = !acquired.empty() && (acquired[thread].published_near || acquired[thread].published_far);
    const bool releases = writes && (release || published);
    auto found = by_address.find(address);
    if (found == by_address.end()) {
        if (!releases) return;
        found = by_address.emplace(address, std::make_shared<Log>()).first;
    }
    const std::shared_ptr<Log>& log = found->second;
    if (kind != Kind::atomic_write && !log->entries.empty()) add(acquired_by(thread).parts, {log, log->entries.size()});
    if (!releases) return;
    if (release) {
        const auto what = released_by(thread);
        log->append({what, what});
    } else {
        log->append({acquired[thread].published_near, acquired[thread].published_far});
    }
}

// Looks through what others have released, and what they had acquired.
bool BlockOrder::has_acquired(uint32_t thread, Actor who, uint32_t clock) const {
    const uint32_t block = block_of(who), other = thread_of(who);
    auto knew = [&](const Released* one) {
        if (!one) return false;
        if (clock < one->grid_clock) return true;
        if (one->actor == ~0u || block_of(one->actor) != block) return false;
        if (one->actor == who && clock <= one->clock) return true;
        if (clock < one->block_clock) return true;
        return !one->lanes.empty() && thread_of(one->actor) / 32 == other / 32 && clock <= one->lanes[other % 32];
    };
    // Whose part it is: what a fence of a block releases holds for that block alone, and for those that acquire it from there.
    struct Ahead {
        Part part;
        uint32_t block;
    };
    auto half = [](const Log::Entry& entry, uint32_t whose) {
        const bool near = entry.near && (entry.near->actor == ~0u || block_of(entry.near->actor) == whose);
        return near ? entry.near.get() : entry.far.get();
    };
    std::vector<Ahead> ahead;
    for (const Part& part : acquired[thread].parts) ahead.push_back({part, index});
    std::map<std::pair<const Log*, uint32_t>, size_t> seen;  // how many entries of a log, for a block
    while (!ahead.empty()) {
        const auto [part, whose] = ahead.back();
        ahead.pop_back();
        size_t& before = seen[{part.log.get(), whose}];
        if (part.length <= before) continue;
        before = part.length;
        const Log& log = *part.log;
        auto block_entries = log.block_entries.find(block);
        if (block_entries != log.block_entries.end())
            for (auto entry = block_entries->second.rbegin(); entry != block_entries->second.rend(); ++entry)
                if (*entry < part.length && knew(half(log.entries[*entry], whose))) return true;
        for (uint32_t entry : log.chained) {
            if (entry >= part.length) break;
            const Released* one = half(log.entries[entry], whose);
            if (!one) continue;
            for (const Part& more : one->parts)
                ahead.push_back({more, one->actor == ~0u ? whose : block_of(one->actor)});
        }
    }
    return false;
}

}  // namespace lens
}  // namespace kernels
