#include "observers.h"

#include <algorithm>

namespace kernels {
namespace lens {

void Observers::take(const Stretches& those, bool whole) {
    const Taken taken = whole ? take_together(those) : Taken{0, 0};
    bool behind = false;
    for (uint32_t i = 0; i < those.count; ++i) {
        const Stretch& one = those.of[i];
        const Event* const next = one.first + taken.events;
        if (next == one.last) continue;
        races.ran(*those.block, one.thread, next, one.last, one.values + taken.values);
        counters.ran(*those.block, one.thread, next, one.last);
        behind = true;
    }
    if (behind) counters.replay(those);
}

// Steps that all lanes take together, which most are: lane after lane would come to the same, more slowly. What orders
// threads among each other, such as an atomic, is left to come in the order in which it ran.
Observers::Taken Observers::take_together(const Stretches& those) {
    Taken taken = {0, 0};
    if (!counters.begin_together(those)) return taken;
    const Stretch *of_lane[32], *lane[32];
    for (uint32_t i = 0; i < those.count; ++i) of_lane[those.of[i].thread % 32] = &those.of[i];
    uint32_t count = 0;
    for (uint32_t rest = those.present; rest; rest &= rest - 1) lane[count++] = of_lane[__builtin_ctz(rest)];
    races.begin_together(*those.block, lane, count);

    const Event* next[32];
    size_t length = Stretches::most_events;
    Request request;
    request.lanes = those.count;
    for (uint32_t i = 0; i < those.count; ++i) {
        next[i] = lane[i]->first;
        length = std::min(length, size_t(lane[i]->last - lane[i]->first));
        request.lane[i] = uint8_t(lane[i]->thread % 32);
    }
    for (; taken.events < length; ++taken.events) {
        const Event& event = next[0][taken.events];
        uint64_t different = 0;
        for (uint32_t i = 0; i < those.count; ++i) {
            const Event& other = next[i][taken.events];
            different |= other ^ event;
            request.address[i] = other.address;
        }
        if (different) break;
        switch (event.kind()) {
            case Kind::branch: counters.branch(those.count); continue;
            case Kind::read:
            case Kind::write:
                if (event.how()) return taken;
                request.begin(event);
                counters.access(request);
                races.access_together(event, request.address, taken.values);
                if (event.kind() == Kind::write) taken.values += words_of(event);
                continue;
            case Kind::barrier_arrived:
                counters.branch(those.count);
                if (lane[0]->thread == 0) counters.barrier();
                races.synchronise_together(event);
                continue;
            case Kind::warp_arrived:
            case Kind::warp_passed:
                if (std::count(request.address, request.address + those.count, event.address) != those.count) return taken;
                if (event.kind() == Kind::warp_arrived) counters.branch(those.count);
                races.synchronise_together(event);
                continue;
            case Kind::barrier_passed: races.synchronise_together(event); continue;
            default: return taken;
        }
    }
    return taken;
}

}  // namespace lens
}  // namespace kernels
