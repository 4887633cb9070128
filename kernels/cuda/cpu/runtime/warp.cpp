// Warp collectives. Lanes that come with the same kind and mask form a group. The lane that arrives last computes every
// lane's result, before any of them can come back with its next value.
#include <string.h>

#include "block.h"

namespace kernels {

// The lanes that exist: the last warp of a block may be partial.
inline uint32_t Block::warp_lanes(uint32_t warp) const {
    const uint32_t lanes = thread->count - warp * warp_size;
    return lanes >= warp_size ? 0xffffffffu : (1u << lanes) - 1;
}

// Lanes that have finished are not waited for. Which lanes are active is known when no other can come.
inline bool Block::complete(uint32_t warp, const Group& group) const {
    return group.kind != Collective::active && (group.mask & warp_lanes(warp) & ~group.arrived & ~thread->finished[warp]) == 0;
}

uint64_t Block::collective(Collective kind, uint32_t mask, uint64_t value, uint64_t argument_width, const Site& site) {
    const uint32_t number = thread->running, warp = number / warp_size, bit = 1u << number % warp_size;
    const uint32_t width = uint32_t(argument_width >> 32);
    if (!(mask & bit)) refuse_mask(mask, site);
    if (width == 0 || width > warp_size || (width & (width - 1))) refuse_width(width, site);

    Waiting& me = waiting[number];
    me.site = &site;
    me.value = value;
    me.argument_width = argument_width;
    Groups& those = groups[warp];
    auto same = [&](const Group& group) {
        return group.mask == mask && group.kind == kind &&
               (kind != Collective::active || group.site->line == site.line);
    };
    uint32_t index = 0;
    while (index < those.count && !same(those.group[index])) ++index;
    Group& group = those.group[index];
    if (index == those.count) {
        ++those.count;
        group = {kind, mask, 0, &site};
    }
    group.arrived |= bit;
    if (complete(warp, group))
        release(warp, index);
    else
        wait(Waiting::in_collective);
    if (!error.empty()) fail(error);
    return me.result;
}

void Block::refuse_mask(uint32_t mask, const Site& site) {
    fail(describe(site) + " in " + thread_name() + ": its mask " + describe_lanes(mask) +
         " does not name the calling lane, " + std::to_string(thread->running % warp_size));
}

void Block::refuse_width(uint32_t width, const Site& site) {
    fail(describe(site) + " in " + thread_name() + ": its width is " + std::to_string(int32_t(width)) +
         ", not a power of two up to 32");
}

// The lanes of a group that offer a value.
static uint32_t lanes_with(uint64_t value, const Group& group, const Waiting* lanes) {
    uint32_t found = 0;
    for (uint32_t rest = group.arrived; rest; rest &= rest - 1) {
        const uint32_t lane = uint32_t(__builtin_ctz(rest));
        if (lanes[lane].value == value) found |= 1u << lane;
    }
    return found;
}

// What every lane of a vote or reduction receives.
static uint64_t combined(const Group& group, const Waiting* lanes) {
    const uint64_t first = lanes[__builtin_ctz(group.arrived)].value;
    switch (group.kind) {
        case Collective::ballot: return lanes_with(1, group, lanes);
        case Collective::any: return lanes_with(1, group, lanes) != 0;
        case Collective::all: return lanes_with(1, group, lanes) == group.arrived;
        case Collective::match_all: return lanes_with(first, group, lanes) == group.arrived ? group.mask : 0;
        default: break;
    }
    uint32_t value = uint32_t(first);
    for (uint32_t rest = group.arrived & (group.arrived - 1); rest; rest &= rest - 1) {
        const uint32_t other = uint32_t(lanes[__builtin_ctz(rest)].value);
        switch (group.kind) {
            case Collective::add: value += other; break;
            case Collective::min_signed: value = int32_t(other) < int32_t(value) ? other : value; break;
            case Collective::max_signed: value = int32_t(other) > int32_t(value) ? other : value; break;
            case Collective::min_unsigned: value = other < value ? other : value; break;
            case Collective::max_unsigned: value = other > value ? other : value; break;
            case Collective::bit_and: value &= other; break;
            case Collective::bit_or: value |= other; break;
            default: value ^= other;
        }
    }
    return value;
}

// Computes the results of a complete group and lets its lanes go on.
void Block::release(uint32_t warp, uint32_t index) {
    Groups& those = groups[warp];
    const Group group = those.group[index];
    those.group[index] = those.group[--those.count];

    Waiting* lanes = waiting.data() + warp * warp_size;
    uint64_t result = 0;
    bool one_for_all = true;
    switch (group.kind) {
        case Collective::sync:
        case Collective::meet: break;
        case Collective::active: result = group.arrived; break;
        case Collective::shuffle:
        case Collective::shuffle_up:
        case Collective::shuffle_down:
        case Collective::shuffle_xor:
        case Collective::match_any: one_for_all = false; break;
        default: result = combined(group, lanes);
    }
    // They go on before other warps: their stacks are in the nearest cache. Not for ever: they may wait for another.
    const bool first = !thread->order && ++groups_released % 64;
    for (uint32_t rest = group.arrived; rest; rest &= rest - 1) {
        const uint32_t lane = uint32_t(__builtin_ctz(rest));
        lanes[lane].result = one_for_all                             ? result
                             : group.kind == Collective::match_any ? lanes_with(lanes[lane].value, group, lanes)
                                                                     : shuffled(warp, lane, group);
        if (lanes[lane].where == Waiting::in_collective) make_ready(warp * warp_size + lane, first);
    }
}

// The value that a lane of a shuffle receives (PTX manual, shfl.sync).
inline uint64_t Block::shuffled(uint32_t warp, uint32_t lane, const Group& group) {
    const Waiting* lanes = waiting.data() + warp * warp_size;
    const uint32_t argument = uint32_t(lanes[lane].argument_width) % warp_size;
    const uint32_t width = uint32_t(lanes[lane].argument_width >> 32), first = lane & ~(width - 1), last = first + width - 1;
    uint32_t source = lane;
    switch (group.kind) {
        case Collective::shuffle: source = first + (argument & (width - 1)); break;
        case Collective::shuffle_up: source = lane - first >= argument ? lane - argument : lane; break;
        case Collective::shuffle_down: source = lane + argument <= last ? lane + argument : lane; break;
        default: source = (lane ^ argument) <= last ? lane ^ argument : lane;
    }
    if (group.arrived >> source & 1) return lanes[source].value;
    // CUDA leaves the value of a lane outside the mask undefined; programs read it and drop it. All ones is a NaN.
    return group.mask >> source & 1 ? lost(warp, lane, source) : ~uint64_t(0);
}

// The lane that another would read is named by the mask, and is not there.
uint64_t Block::lost(uint32_t warp, uint32_t lane, uint32_t source) {
    if (!error.empty()) return 0;
    error = describe(*waiting[warp * warp_size + lane].site) + " in " + thread_name(warp * warp_size + lane) + ": lane " +
            std::to_string(lane) + " reads lane " + std::to_string(source) + " of warp " + std::to_string(warp) +
            (warp_lanes(warp) >> source & 1 ? ", whose thread has finished." : ", which the block does not have.") +
            " The mask names that lane: let every lane of the mask take part, or name only those that do";
    return 0;
}

// A lane that finishes says nothing; its group is found complete when the block has nothing else to do.
bool Block::release_groups_that_lost_lanes() {
    bool released = false;
    for (uint32_t warp = 0; warp * warp_size < thread->count; ++warp)
        for (uint32_t index = 0; index < groups[warp].count;)
            if (complete(warp, groups[warp].group[index])) {
                release(warp, index);
                released = true;
            } else {
                ++index;
            }
    return released;
}

// The lanes that ask on one line which lanes are active hear of each other when nothing else in the block can go on: as
// many as can be together are. (A GPU promises no more than that some are.)
bool Block::release_active_lanes() {
    bool released = false;
    for (uint32_t warp = 0; warp * warp_size < thread->count; ++warp)
        for (uint32_t index = 0; index < groups[warp].count;)
            if (groups[warp].group[index].kind == Collective::active) {
                release(warp, index);
                released = true;
            } else {
                ++index;
            }
    return released;
}

}  // namespace kernels
