// What the lanes of a warp did, each from one wait to the next: gathered until all lanes have come, so that steps which they
// took together are looked at once for all.
#pragma once
#include "events.h"

namespace kernels {
namespace lens {

// What one lane did. Values: what its writes left, as it left them, each in as many words of 4 bytes as it takes.
struct Stretch {
    uint32_t thread;
    const Event *first, *last;
    const uint32_t* values;
};
inline uint32_t words_of(const Event& write) { return (write.size() + 3) / 4; }

// The stretches of one warp, in the order in which they ran.
class Stretches {
   public:
    static constexpr size_t most_events = 2048;  // of a lane

    const BlockInfo* block;
    uint32_t warp, count = 0;
    uint32_t present = 0, finished = 0;  // one bit a lane; finished: for good, with the last of their stretches or before
    bool ordering = false;  // what is in them says what happened before what, beside barriers of the block and collectives
    uint32_t barrier = 0;   // the last that one of them has come to, counted from 1
    Stretch of[32];

    bool has(uint32_t thread) const { return present >> thread % 32 & 1; }
    Event* room() { return next; }  // for the events of the next
    // writes: those among its events.
    void add(uint32_t thread, Event* last, const Event* const* writes, size_t written, uint32_t finished, const LaunchInfo&);
    void clear();

   private:
    Event* next = events;
    uint32_t* next_value = values;
    // One after another, which is how they are read, too: lane by lane, and all of it stays in the processor's caches.
    Event events[32 * most_events];
    uint32_t values[32 * most_events * 4];
};

}  // namespace lens
}  // namespace kernels
