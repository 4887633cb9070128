// The lanes of a warp, which ran one after another, put back into lockstep as a GPU runs them.
#pragma once
#include "request.h"

namespace kernels {
namespace lens {

// The events of a lane that have not been replayed.
class Stream {
   public:
    void append(const Event* first, const Event* last) { events.insert(events.end(), first, last); }
    size_t length() const { return events.size() - position; }
    const Event* next() const { return events.data() + position; }
    void advance(size_t steps) { position += steps; }
    void forget_replayed();

   private:
    std::vector<Event> events;
    size_t position = 0;
};

// Of steps that are no access: those that a warp takes at once, and that count.
inline bool is_step_alone(Kind kind) {
    return kind == Kind::branch || kind == Kind::barrier_arrived || kind == Kind::warp_arrived;
}

// What a step of a warp is reported to.
class Steps {
   public:
    virtual void branch(uint32_t lanes) = 0;  // a basic block, a barrier of the block or a collective, by so many lanes
    virtual void collective(uint16_t kind) = 0;  // what of the last was one: a kernels::Collective
    virtual void access(const Request&) = 0;
};

// Replays the lanes of a warp as far as it is known what comes next: the lanes at the lowest address go first, which
// brings those that diverged together again behind it, and lanes at a barrier or a collective wait until the others are at
// one. `finished`: the lanes whose streams are complete.
void replay(Stream* lanes, uint32_t count, uint32_t finished, Steps& steps);

}  // namespace lens
}  // namespace kernels
