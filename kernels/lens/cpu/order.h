// What is known to have happened before what: "happens before" among the threads of a launch, made by barriers, by the
// collectives of warps, and by fences with atomics.
//
// Time is one counter for the launch. A thread's clock is the counter's value when it last released what it had done; all
// that it does until it does so again has that clock. To know of a thread's access is to have acquired what it released at that
// clock or later, from itself or from one that had acquired it. Most of what a thread knows is a number: all of its block before the last barrier.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "events.h"

namespace kernels {
namespace lens {

// A thread of a block, by the order in which blocks began.
using Actor = uint32_t;
constexpr uint32_t threads_of_actors = 1024;
inline uint32_t block_of(Actor actor) { return actor / threads_of_actors; }
inline uint32_t thread_of(Actor actor) { return actor % threads_of_actors; }

struct Log;
// The first so many entries of a log.
struct Part {
    std::shared_ptr<Log> log;
    size_t length;
};
using Parts = std::vector<Part>;
void add(Parts& parts, const Part& part);
void add(Parts& parts, const Parts& more);

// What a thread knew at a release.
struct Released {
    Actor actor = ~0u;
    uint32_t clock = 0, block_clock = 0, grid_clock = 0;
    std::vector<uint32_t> lanes;  // clocks of its warp; empty if it knows no more than the block's
    Parts parts;
};

// What was released at one place, one after another. An entry's two halves: what holds for the same block, and for others.
struct Log {
    struct Entry {
        std::shared_ptr<const Released> near, far;
    };
    void append(Entry entry);
    std::vector<Entry> entries;
    std::unordered_map<uint32_t, std::vector<uint32_t>> block_entries;  // entries by who released
    std::vector<uint32_t> chained;                                 // entries that know of other logs
};

// Threads that meet: what came with them is theirs together when they leave.
struct Meeting {
    Parts parts;
    std::shared_ptr<Log> published;
};

struct ThreadOrder {
    uint32_t clock = 0, block_clock = 0;  // of all threads, what is before block_clock is known
    uint32_t barriers = 0, grid_barriers = 0;
    uint32_t group = ~0u;  // of the warp, that it is in
    uint32_t met = 0;      // the clock of the collective that it left last: who left it too knows the same of the warp
    bool together = false; // what it knows of the warp is the warp's row, not its own
};

// What a thread knows by atomics, fences and barriers of part of a block.
struct Acquired {
    Parts parts;
    std::shared_ptr<const Released> published_near, published_far;  // by a fence: what a relaxed atomic releases
};

// The lanes that came together to a collective.
struct GroupOrder {
    uint32_t mask = 0, kind = 0, arrived = 0, left = 0;
    uint32_t met = 0;  // where the first to arrive comes from
    uint32_t clocks[32];
    Meeting meeting;
};

struct TileOrder {
    uint64_t first, count;
    std::shared_ptr<Log> log;
};

class BlockOrder {
   public:
    BlockOrder(uint32_t index, uint32_t threads);

    uint32_t index, begun;  // the clock at which it began
    uint32_t floor;         // no thread's clock is less
    std::vector<ThreadOrder> threads;
    std::vector<Acquired> acquired;  // of each; empty as long as that is nothing

    // What `other` did at `clock`, by all threads that know all of the block before `block_clock`.
    bool known_by_all(Actor other, uint32_t clock, uint32_t block_clock) const {
        return clock < grid_clock || (clock < block_clock && block_of(other) == index);
    }
    // Clocks of its warp's lanes, as the thread knows them; nullptr: as all of the block is known.
    const uint32_t* warp_row(uint32_t thread) const { return lanes.empty() ? nullptr : row(thread); }
    uint32_t stamp(uint32_t thread) const { return threads[thread].clock > floor ? threads[thread].clock : floor; }
    Actor actor(uint32_t thread) const { return index * threads_of_actors + thread; }

    void barrier(uint32_t thread, bool passed, bool whole_grid);
    void collective(uint32_t thread, bool passed, uint32_t mask, uint32_t kind);
    // All lanes of a warp that are left arrive, and no one else comes before they have passed. False: it has to be done one
    // by one.
    bool collective_together(uint32_t warp, uint32_t present, uint32_t kind);
    bool passed_together(uint32_t warp) const { return warp < passes.size() && passes[warp]; }
    void tile(uint32_t thread, bool passed, uint64_t first, uint64_t count);
    void fence(uint32_t thread, Scope scope);
    void condition(uint32_t thread);
    // An atomic at `address`. release: its memory order is that or a stronger one.
    using Places = std::unordered_map<uint64_t, std::shared_ptr<Log>>;
    void atomic(uint32_t thread, Kind kind, bool release, uint64_t address, Places& places);
    Places places;  // in shared memory

   private:
    friend class Knowledge;
    void prepare_warps();
    Acquired& acquired_by(uint32_t thread);
    bool has_acquired(uint32_t thread, Actor actor, uint32_t clock) const;
    std::shared_ptr<const Released> released_by(uint32_t thread);
    void enter(uint32_t thread, Meeting& meeting);
    void leave(uint32_t thread, const Meeting& meeting);

    uint32_t grid_clock = 0;
    uint32_t barriers = 0, barrier_clock = 0;
    Meeting at_barrier, passed_barrier;
    // Clocks of a warp's lanes, as each of its threads knows them, and as all do: 33 rows a warp; empty until a collective.
    std::vector<uint32_t> lanes;
    const uint32_t* row(uint32_t thread) const {
        return &lanes[(thread / 32 * 33 + (threads[thread].together ? 32 : thread % 32)) * 32];
    }
    std::vector<GroupOrder> groups;
    std::vector<bool> passes;  // of each warp: its last collective was one together, which to pass is nothing
    std::vector<TileOrder> tiles;
};

// What a thread knows, which stays the same until it synchronises.
class Knowledge {
   public:
    Knowledge() = default;
    Knowledge(const BlockOrder& order, uint32_t thread)
        : order(&order), thread(thread), actor(order.actor(thread)), block_clock(order.threads[thread].block_clock),
          grid_clock(order.grid_clock), lanes(order.warp_row(thread)),
          acquired(!order.acquired.empty() && !order.acquired[thread].parts.empty()) {}

    // What `other` did at `clock`.
    bool of(Actor other, uint32_t clock) const {
        if (clock < block_clock && block_of(other) == block_of(actor)) return true;
        if (other == actor || clock < grid_clock) return true;
        if (lanes && other / 32 == actor / 32 && clock <= lanes[other % 32]) return true;
        return acquired && order->has_acquired(thread, other, clock);
    }

   private:
    const BlockOrder* order;
    uint32_t thread;
    Actor actor;
    uint32_t block_clock, grid_clock;
    const uint32_t* lanes;  // of the warp
    bool acquired;          // something from others than its block
};

extern uint32_t now;  // the time
// Starts a launch: time begins again.
void reset_time();

}  // namespace lens
}  // namespace kernels
