#include "replay.h"

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

// Where a lane goes next, behind what takes no step. False: that is not known yet.
bool find_next(Stream& lane, bool finished, uint32_t& place) {
    while (lane.length() && !is_step(lane.next()->kind)) lane.advance();
    if (!lane.length()) {
        place = gone;
        return finished;
    }
    place = lane.next()->pc | (is_wait(lane.next()->kind) ? waits : 0);
    return true;
}

}  // namespace

void Stream::forget_replayed() {
    events.erase(events.begin(), events.begin() + std::ptrdiff_t(position));
    position = 0;
}

void replay(Stream* lanes, uint32_t count, uint32_t finished, Steps& steps) {
    uint32_t place[32];
    bool known = true;
    for (uint32_t lane = 0; lane < count; ++lane) known &= find_next(lanes[lane], finished >> lane & 1, place[lane]);
    while (known) {
        uint32_t lowest = gone;
        for (uint32_t lane = 0; lane < count; ++lane) lowest = place[lane] < lowest ? place[lane] : lowest;
        if (lowest == gone) break;

        Request request;
        request.lanes = 0;
        bool first = true;
        for (uint32_t lane = 0; lane < count; ++lane) {
            if (place[lane] != lowest) continue;
            const Event& event = *lanes[lane].next();
            if (first) {
                request.pc = event.pc;
                request.kind = event.kind;
                request.size = event.size;
                first = false;
            } else if (event.kind != request.kind || event.size != request.size) {
                continue;  // its turn comes next
            }
            request.lane[request.lanes] = uint8_t(lane);
            request.address[request.lanes++] = event.address;
            lanes[lane].advance();
            known &= find_next(lanes[lane], finished >> lane & 1, place[lane]);
        }
        if (request.kind == Kind::branch)
            steps.branch(request.lanes);
        else if (is_access(request.kind))
            steps.access(request);
    }
    for (uint32_t lane = 0; lane < count; ++lane) lanes[lane].forget_replayed();
}

}  // namespace lens
}  // namespace kernels
