// What an instrumented run shows: for each thread of a block a stream of events, and who wants to see them.
//
// The run is on one OS thread. A thread runs until it must wait; the events of such a stretch reach every consumer in the
// order in which stretches ran, before another thread goes on. So what consumers see, one after another, is what happened.
#pragma once
#include <stdint.h>

#include <string>
#include <vector>

namespace kernels {
namespace lens {

enum class Kind : uint8_t {
    // Accesses: `address` and `size` (1, 2, 4, 8 or 16 bytes; larger ones come in pieces with the same pc).
    // They are seen just before they happen.
    read,          // `extra`: of the bits below
    write,
    atomic,        // reads and writes; `extra` is the memory order, as in __ATOMIC_RELAXED
    atomic_read,   // a load or a store of cuda::atomic or the like; `extra` is the memory order
    atomic_write,
    copy_from,     // an asynchronous copy was issued: 4, 8 or 16 bytes are read here …
    copy_to,       // … and will be written there, once waited for; follows its copy_from. `extra`: bytes that become zero

    branch,        // a basic block begins

    // Synchronisation. What is passed with several threads has two events: _arrived before, _passed after the wait.
    barrier_arrived,  // __syncthreads and its kin; `extra` is a kernels::Barrier, which may be `grid`
    barrier_passed,
    warp_arrived,  // __syncwarp, shuffles, votes and their kin; `address` is the mask, `extra` a kernels::Collective
    warp_passed,
    tile_arrived,  // a barrier of part of the block; `address` is its first thread, `extra` the number of its threads
    tile_passed,
    fence,         // `extra` is a Scope
    copies_committed,  // the copies issued since the last commit join the queue of the owner at `address`, or, if 0, the
                       // thread's own queue
    copies_waited,     // all but the `extra` newest batches of that queue have landed
    condition_passed,  // a wait for other threads of the block: cuda::barrier, cuda::pipeline
    polled,            // the thread lets others go first: a loop that waits for memory to change

    // Of an array of known size: `address` is the index, `extra` the length, 0 if unknown (seen before the access).
    index_out_of_bounds,
};

enum class Scope : uint16_t { block, device };

// Of plain reads and writes. Code that may be misaligned says so by its type, and is compiled into smaller accesses.
constexpr uint16_t may_be_misaligned = 1, is_volatile = 2;

struct Event {
    uint64_t address;
    uint32_t pc;  // return address of the instrumentation's call, from the library's base
    Kind kind;
    uint8_t size;
    uint16_t extra;
    bool same_step(const Event& other) const { return pc == other.pc && kind == other.kind && size == other.size; }
};
static_assert(sizeof(Event) == 16, "");

inline bool is_access(Kind kind) { return kind <= Kind::copy_to; }
inline bool is_write(Kind kind) {
    return kind == Kind::write || kind == Kind::atomic || kind == Kind::atomic_write || kind == Kind::copy_to;
}
inline bool is_atomic(Kind kind) {
    return kind == Kind::atomic || kind == Kind::atomic_read || kind == Kind::atomic_write;
}

enum class Space : uint8_t { global, shared, constant, none };

// Memory that a kernel may use. What lies in no region is local to a thread, or our headers' own.
struct Region {
    uint64_t begin, end;
    uint64_t zone_begin, zone_end;  // with the red zones around it, which are nobody else's
    Space space;
    uint32_t number;                // counts the regions of a launch
};

struct LaunchInfo {
    uint32_t threads;               // of a block
    uint32_t dynamic_shared_bytes;
    std::vector<Region> regions;    // sorted by address; but for the following
    Region dynamic_shared;          // of the block that runs
    const Region* region(uint64_t address) const;  // whose zone the address is in, or nullptr
};

// A block that runs. Several are under way at once only when they wait for each other.
struct BlockInfo {
    uint64_t number;  // x fastest
};

class Consumer {
   public:
    virtual ~Consumer() {}
    virtual void block_begins(const BlockInfo&) {}
    // The next events of a thread, in order. They stay where they are only during the call.
    virtual void ran(const BlockInfo&, uint32_t thread, const Event* first, const Event* last) = 0;
    virtual void block_ends(const BlockInfo&) {}
    // The launch stops at this event of this thread, which would crash: an address that is not mapped or not aligned.
    virtual void faulted(const BlockInfo&, uint32_t /*thread*/, const Event&) {}
    // The last call. Members of the result's JSON object: `"findings": [ … ]`.
    virtual std::string result() { return ""; }
};

}  // namespace lens
}  // namespace kernels
