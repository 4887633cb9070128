// What collectives of a warp order.
#include <algorithm>

#include "kernels/abi.h"
#include "order.h"

namespace kernels {
namespace lens {

// __activemask says who is there, which is no synchronisation.
void BlockOrder::collective(uint32_t thread, bool passed, uint32_t mask, uint32_t kind) {
    if (Collective(kind) == Collective::active) return;
    ThreadOrder& me = threads[thread];
    const uint32_t warp = thread / 32, lane = thread % 32;
    prepare_warps();
    GroupOrder* const those = &groups[warp * 32];
    if (!passed) {
        const uint32_t* const mine = row(thread);
        // A group that someone has left is complete; the same mask then means the next one.
        uint32_t place = 32;
        for (uint32_t i = 0; i < 32; ++i) {
            GroupOrder& group = those[i];
            if (!group.arrived) {
                if (place == 32) place = i;
            } else if (!group.left && group.mask == mask && group.kind == kind) {
                place = i;
                break;
            }
        }
        passes[warp] = false;
        GroupOrder& group = those[place & 31];
        if (!group.arrived) {
            group.mask = mask;
            group.kind = kind;
            group.meeting = {};
            group.met = me.met;
            std::copy(mine, mine + 32, group.clocks);
        } else if (group.met != me.met) {
            for (uint32_t i = 0; i < 32; ++i) group.clocks[i] = std::max(group.clocks[i], mine[i]);
        }
        group.arrived |= 1u << lane;
        group.clocks[lane] = stamp(thread);
        me.clock = ++now;
        me.group = place & 31;
        return enter(thread, group.meeting);
    }
    if (me.group >= 32) return;
    GroupOrder& group = those[me.group];
    me.group = ~0u;
    me.together = false;
    std::copy(group.clocks, group.clocks + 32, &lanes[(warp * 33 + lane) * 32]);  // in which its own are
    leave(thread, group.meeting);
    if (!group.left) group.met = ++now;
    me.met = group.met;
    group.left |= 1u << lane;
    if (group.left == group.arrived) group.arrived = group.left = 0;
}

void BlockOrder::prepare_warps() {
    const size_t warps = (threads.size() + 31) / 32;
    if (lanes.empty()) lanes.resize(warps * 33 * 32);
    if (groups.empty()) groups.resize(warps * 32), passes.resize(warps);
}

bool BlockOrder::collective_together(uint32_t warp, uint32_t present, uint32_t kind) {
    if (Collective(kind) == Collective::active) return false;
    prepare_warps();
    if (!acquired.empty()) return false;
    ThreadOrder* const those = &threads[warp * 32];
    const uint32_t first = uint32_t(__builtin_ctz(present));
    for (uint32_t rest = present; rest; rest &= rest - 1)
        if (those[__builtin_ctz(rest)].met != those[first].met) return false;
    uint32_t* const shared = &lanes[(warp * 33 + 32) * 32];
    if (!those[first].together) std::copy(row(warp * 32 + first), row(warp * 32 + first) + 32, shared);
    passes[warp] = true;
    ++now;
    for (uint32_t rest = present; rest; rest &= rest - 1) {
        const uint32_t lane = uint32_t(__builtin_ctz(rest));
        shared[lane] = stamp(warp * 32 + lane);
        those[lane].clock = those[lane].met = now;
        those[lane].together = true;
    }
    return true;
}

}  // namespace lens
}  // namespace kernels
