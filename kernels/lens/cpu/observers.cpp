#include "observers.h"

#include <algorithm>

namespace kernels {
namespace lens {

Observers::Observers(const LaunchInfo& launched) : launch(launched), counters(launch), races(launch, findings) {
    launch.number_regions();
}

void Observers::take(const Tape::Entry& entry) {
    launch.turn_to(entry.block);
    switch (entry.what) {
        case Tape::Entry::block_begins:
            counters.block_begins(entry.block);
            return races.block_begins(entry.block);
        case Tape::Entry::lanes_ran: return take(*entry.those, entry.whole);
        case Tape::Entry::block_ends:
            counters.block_ends(entry.block);
            return races.block_ends(entry.block);
    }
}

void Observers::take(const Stretches& those, bool whole) {
    const Taken taken = whole ? take_together(those) : Taken{0, 0};
    bool behind = false;
    for (uint32_t i = 0; i < those.count; ++i) {
        const Stretch& one = those.of[i];
        const Event* const next = one.first + taken.events;
        if (next == one.last) continue;
        races.ran(those.block, one.thread, next, one.last, one.values + taken.values);
        counters.ran(those.block, one.thread, next, one.last);
        behind = true;
    }
    if (behind) counters.replay(those);
}

// Whether it is a collective of all of them.
static bool meet(const Request& lanes, const Event& event) {
    if (event.kind() != Kind::warp_arrived && event.kind() != Kind::warp_passed) return false;
    return std::count(lanes.address, lanes.address + lanes.lanes, event.address) == lanes.lanes;
}

// Steps that all lanes take together, which most are: lane after lane would come to the same, more slowly. What orders
// threads among each other, such as an atomic, is left to come in the order in which it ran.
Observers::Taken Observers::take_together(const Stretches& those) {
    Taken taken = {0, 0};
    if (!counters.begin_together(those)) return taken;
    const Stretch *lane_stretch[32], *lane[32];
    for (uint32_t i = 0; i < those.count; ++i) lane_stretch[those.of[i].thread % 32] = &those.of[i];
    uint32_t count = 0;
    for (uint32_t rest = those.present; rest; rest &= rest - 1) lane[count++] = lane_stretch[__builtin_ctz(rest)];
    races.begin_together(those.block, lane, count);

    const Event* next[32];
    size_t length = Stretch::most_events;
    Request request;
    request.lanes = count;
    for (uint32_t i = 0; i < count; ++i) {
        next[i] = lane[i]->first;
        length = std::min(length, size_t(lane[i]->last - lane[i]->first));
        request.lane[i] = uint8_t(lane[i]->thread % 32);
    }
    for (; taken.events < length; ++taken.events) {
        const Event& event = next[0][taken.events];
        uint64_t different = 0;
        for (uint32_t i = 0; i < count; ++i) {
            const Event& other = next[i][taken.events];
            different |= other ^ event;
            request.address[i] = other.address;
        }
        if (different) break;
        const Kind kind = event.kind();
        if (kind == Kind::branch) {
            counters.branch(count);
        } else if (kind == Kind::read || kind == Kind::write) {
            if (event.how()) break;
            request.begin(event);
            counters.access(request);
            races.access_together(event, request.address, taken.values);
            if (kind == Kind::write) taken.values += words_of(event);
        } else if (kind == Kind::barrier_arrived || kind == Kind::barrier_passed || meet(request, event)) {
            if (is_step_alone(kind)) counters.branch(count);
            if (kind == Kind::warp_arrived) counters.collective(event.extra());
            races.synchronise_together(event);
        } else {
            break;
        }
    }
    return taken;
}

}  // namespace lens
}  // namespace kernels
