// Warp collectives. Lanes that come with the same kind and mask form a group. The lane that arrives last computes every
// lane's result, before any of them can come back with its next value.
#include "worker.h"

namespace kernels {

// The lanes that exist: the last warp of a block may be partial.
uint32_t Worker::warp_lanes(uint32_t warp) const {
    const uint32_t lanes = thread->count - warp * warp_size;
    return lanes >= warp_size ? 0xffffffffu : (1u << lanes) - 1;
}

// Lanes that have finished are not waited for.
bool Worker::complete(uint32_t warp, const Group& group) const {
    return (group.mask & warp_lanes(warp) & ~group.arrived & ~thread->finished[warp]) == 0;
}

uint64_t Worker::collective(const Lane& lane) {
    const uint32_t number = thread->running, warp = number / warp_size, bit = 1u << number % warp_size;
    if (!(lane.mask & bit))
        fail(describe(lane.kind) + describe(lane.site) + " in " + thread_name(number) + ": its mask " +
             describe_lanes(lane.mask) + " does not name the calling lane, " + std::to_string(number % warp_size));
    if (lane.width == 0 || lane.width > warp_size || (lane.width & (lane.width - 1)))
        fail(describe(lane.kind) + describe(lane.site) + " in " + thread_name(number) + ": its width is " +
             std::to_string(int32_t(lane.width)) + ", not a power of two up to 32");

    waiting[number].lane = lane;
    uint32_t index = 0;
    while (index < group_count[warp] &&
           (groups[warp][index].mask != lane.mask || groups[warp][index].kind != lane.kind))
        ++index;
    Group& group = groups[warp][index];
    if (index == group_count[warp]) {
        ++group_count[warp];
        group = {lane.kind, lane.mask, 0};
    }
    group.arrived |= bit;
    if (complete(warp, group))
        release(warp, index);
    else
        wait(Waiting::in_collective);
    if (!error.empty()) fail(error);
    return waiting[number].result;
}

// Computes the results of a complete group and lets its lanes go on.
void Worker::release(uint32_t warp, uint32_t index) {
    const Group group = groups[warp][index];
    groups[warp][index] = groups[warp][--group_count[warp]];

    Waiting* lanes = waiting + warp * warp_size;
    uint32_t votes = 0;
    for (uint32_t rest = group.arrived; rest; rest &= rest - 1) {
        const uint32_t lane = uint32_t(__builtin_ctz(rest));
        votes |= uint32_t(lanes[lane].lane.value & 1) << lane;
    }
    for (uint32_t rest = group.arrived; rest; rest &= rest - 1) {
        const uint32_t lane = uint32_t(__builtin_ctz(rest));
        switch (group.kind) {
            case Collective::sync: break;
            case Collective::ballot: lanes[lane].result = votes; break;
            case Collective::any: lanes[lane].result = votes != 0; break;
            case Collective::all: lanes[lane].result = votes == group.arrived; break;
            default: lanes[lane].result = shuffled(warp, lane, group.arrived);
        }
        if (lanes[lane].where == Waiting::in_collective) make_ready(warp * warp_size + lane);
    }
}

// The value that a lane of a shuffle receives (PTX manual, shfl.sync).
uint64_t Worker::shuffled(uint32_t warp, uint32_t lane, uint32_t arrived) {
    const Lane& call = waiting[warp * warp_size + lane].lane;
    const uint32_t argument = call.argument % warp_size, first = lane & ~(call.width - 1), last = first + call.width - 1;
    uint32_t source = lane;
    switch (call.kind) {
        case Collective::shuffle: source = first + (argument & (call.width - 1)); break;
        case Collective::shuffle_up: source = lane - first >= argument ? lane - argument : lane; break;
        case Collective::shuffle_down: source = lane + argument <= last ? lane + argument : lane; break;
        default: source = (lane ^ argument) <= last ? lane ^ argument : lane;
    }
    if (arrived >> source & 1) return waiting[warp * warp_size + source].lane.value;
    // CUDA leaves the value of a lane outside the mask undefined; programs read it and drop it. All ones is a NaN.
    if (!(call.mask >> source & 1)) return ~uint64_t(0);
    if (!error.empty()) return 0;
    error = describe(call.kind) + describe(call.site) + " in " + thread_name(warp * warp_size + lane) + ": lane " +
            std::to_string(lane) + " reads lane " + std::to_string(source) + " of warp " + std::to_string(warp) +
            (warp_lanes(warp) >> source & 1 ? ", whose thread has finished." : ", which the block does not have.") +
            " The mask names that lane: let every lane of the mask take part, or name only those that do";
    return 0;
}

// A lane that finishes says nothing; its group is found complete when the block has nothing else to do.
bool Worker::release_groups_that_lost_lanes() {
    for (uint32_t warp = 0; warp * warp_size < thread->count; ++warp)
        for (uint32_t index = 0; index < group_count[warp];)
            if (complete(warp, groups[warp][index]))
                release(warp, index);
            else
                ++index;
    return ready_count != 0;
}

}  // namespace kernels
