#include "replay.h"

#include <algorithm>
#include <cstddef>

namespace kernels {
namespace lens {

namespace {

constexpr uint32_t gone = 0xffffffff;          // a lane that has finished
constexpr uint32_t waits = 0x80000000;         // added to the address of what a lane waits at

bool is_wait(Kind kind) {
    return kind == Kind::barrier_arrived || kind == Kind::warp_arrived || kind == Kind::tile_arrived;
}
bool is_step(Kind kind) { return is_access(kind) || kind == Kind::branch || is_wait(kind); }

// Where a lane goes next. False: that is not known yet.
inline bool find_next(Stream& lane, bool finished, uint32_t& place) {
    while (lane.length() && !is_step(lane.next()->kind())) lane.advance(1);
    if (!lane.length()) {
        place = gone;
        return finished;
    }
    place = lane.next()->pc() | (is_wait(lane.next()->kind()) ? waits : 0);
    return true;
}

}  // namespace

// Not before it is the larger part: lanes that are ahead of others would have all of what they did moved at every call.
void Stream::forget_replayed() {
    if (position < events.size() - position) return;
    events.erase(events.begin(), events.begin() + std::ptrdiff_t(position));
    position = 0;
}

// Steps that all lanes take together, which most are.
static void replay_together(Stream* lanes, uint32_t count, Steps& steps) {
    const Event* next[32];
    size_t length = lanes[0].length();
    for (uint32_t lane = 0; lane < count; ++lane) {
        next[lane] = lanes[lane].next();
        length = std::min(length, lanes[lane].length());
    }
    Request request;
    request.lanes = count;
    for (uint32_t lane = 0; lane < count; ++lane) request.lane[lane] = uint8_t(lane);
    size_t taken = 0;
    for (; taken < length; ++taken) {
        const Event& event = next[0][taken];
        uint64_t different = 0;
        for (uint32_t lane = 1; lane < count; ++lane) different |= next[lane][taken] ^ event;
        if (different & Event::step_mask) break;
        if (is_step_alone(event.kind())) {
            steps.branch(count);
            if (event.kind() == Kind::warp_arrived) steps.collective(event.extra());
        } else if (is_access(event.kind())) {
            request.begin(event);
            request.one_region = !different;
            for (uint32_t lane = 0; lane < count; ++lane) request.address[lane] = next[lane][taken].address;
            steps.access(request);
        }
    }
    for (uint32_t lane = 0; lane < count; ++lane) lanes[lane].advance(taken);
}

void replay(Stream* lanes, uint32_t count, uint32_t finished, Steps& steps) {
    for (;;) {
        replay_together(lanes, count, steps);
        uint32_t place[32];
        bool known = true;
        for (uint32_t lane = 0; lane < count; ++lane) known &= find_next(lanes[lane], finished >> lane & 1, place[lane]);
        if (!known) break;
        uint32_t lowest = gone;
        for (uint32_t lane = 0; lane < count; ++lane) lowest = place[lane] < lowest ? place[lane] : lowest;
        if (lowest == gone) break;

        Request request;
        request.lanes = 0;
        const Event* first = nullptr;
        for (uint32_t lane = 0; lane < count; ++lane) {
            if (place[lane] != lowest) continue;
            const Event& event = *lanes[lane].next();
            if (!first) {
                first = &event;
                request.begin(event);
            } else if (!event.same_step(*first)) {
                continue;  // its turn comes next
            }
            request.one_region &= event.extra() == request.region;
            request.lane[request.lanes] = uint8_t(lane);
            request.address[request.lanes++] = event.address;
            lanes[lane].advance(1);
        }
        if (is_step_alone(request.kind)) {
            steps.branch(request.lanes);
            if (request.kind == Kind::warp_arrived) steps.collective(request.region);
        } else if (is_access(request.kind)) {
            steps.access(request);
        }
    }
    for (uint32_t lane = 0; lane < count; ++lane) lanes[lane].forget_replayed();
}

}  // namespace lens
}  // namespace kernels
