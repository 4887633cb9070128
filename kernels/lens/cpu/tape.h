// What was recorded, kept until it is looked at.
#pragma once
#include <vector>

#include "events.h"

namespace kernels {
namespace lens {

// What one lane did from one wait to the next. Values: what its writes left, as it left them, each in as many words of 4
// bytes as it takes.
struct Stretch {
    static constexpr size_t most_events = 2048;
    uint32_t thread;
    const Event *first, *last;
    const uint32_t* values;
};
inline uint32_t words_of(const Event& write) { return (write.size() + 3) / 4; }

// The stretches of a warp's lanes, one of each at most, in the order in which they ran.
struct Stretches {
    BlockInfo block;
    uint32_t warp, count;
    uint32_t present, finished;  // one bit a lane; finished: for good, with the last of their stretches or before
    bool ordering;     // what is in them says what happened before what, beside barriers of the block and collectives
    uint32_t barrier;  // the last that one of them has come to, counted from 1
    Stretch of[32];

    bool has(uint32_t thread) const { return present >> thread % 32 & 1; }
};

class alignas(apart) Tape {
   public:
    // What is to be looked at next, one after another.
    struct Entry {
        enum What : uint8_t { block_begins, lanes_ran, block_ends } what;
        bool whole;  // all lanes of the warp that are left have come
        BlockInfo block;
        const Stretches* those;  // of lanes that ran
    };
    std::vector<Entry> entries;

    bool long_enough() const { return length() >= enough_events || used >= enough_stretches; }
    bool full() const { return length() + Stretch::most_events > most_events || used == most_stretches; }
    // Unless it is full:
    Stretches& begin(const BlockInfo&, uint32_t warp);
    Event* room() { return next; }  // for the events of the next stretch
    // writes: those among its events.
    void add(Stretches& those, uint32_t thread, Event* last, const Event* const* writes, size_t written,
             const LaunchInfo& launch) {
        those.of[those.count++] = {thread, next, last, next_value};
        those.present |= 1u << thread % 32;
        next = last;
        if (written) add_values(writes, written, launch);
    }
    size_t length() const { return size_t(next - events); }
    void clear();

   private:
    void add_values(const Event* const* writes, size_t written, const LaunchInfo&);

    // Long enough that following it outweighs starting a thread; beyond, there is room for warps that are not complete yet.
    static constexpr size_t enough_events = 1 << 15, enough_stretches = 512;
    static constexpr size_t most_events = enough_events + 64 * Stretch::most_events, most_stretches = enough_stretches + 32;
    // One after another, which is how they are read, too.
    Event events[most_events];
    uint32_t values[most_events * 4];
    Stretches stretches[most_stretches];
    Event* next = events;
    uint32_t* next_value = values;
    size_t used = 0;
};

}  // namespace lens
}  // namespace kernels
