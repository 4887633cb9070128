// What an instrumented run shows: for each thread of a block a stream of events.
//
// The kernel runs on one OS thread: a thread until it must wait, then another. What is recorded of that (recorder.h) is put
// in order (gathered.h), kept (tape.h) and looked at (follower.h, observers.h).
#pragma once
#include <stdint.h>

#include <string>
#include <vector>

namespace kernels {
namespace lens {

// What one OS thread writes and another uses lies so far apart: processors pass memory on by 64 bytes, or two times that.
constexpr size_t apart = 128;

enum class Kind : uint8_t {
    // Accesses: `address` and `size` (1, 2, 4, 8 or 16 bytes; larger ones come in pieces with the same pc).
    // They are seen just before they happen. `how`: of the bits below.
    read,
    write,
    atomic,        // reads and writes
    atomic_read,   // a load or a store of cuda::atomic or the like
    atomic_write,
    copy_from,     // an asynchronous copy was issued: 4, 8 or 16 bytes are read here …
    copy_to,       // … and will be written there, once waited for; follows its copy_from, which a copy of zeros alone has not

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

    // Of an array of known size. It is in findings only, and no event.
    index_out_of_bounds,
};

enum class Scope : uint16_t { block, device };

// Of plain reads and writes. Code that may be misaligned says so by its type, and is compiled into smaller accesses.
constexpr uint8_t may_be_misaligned = 1, is_volatile = 2;

// Of atomics. One that overwrites changes memory whatever is there by then, unlike a compare and swap, or a minimum.
constexpr uint8_t is_release = 1, overwrites = 2;

// Two words rather than fields: to read whole what has just been written in parts costs as much as the rest of an event.
class Event {
   public:
    uint64_t address;

    Event() = default;
    // pc: return address of the instrumentation's call, from the library's base.
    // extra: of an access, the number of the region whose zone it is in, or `no_region`.
    Event(uint64_t address, uint32_t pc, Kind kind, uint32_t size, uint32_t how, uint16_t extra)
        : address(address), what(pc | (uint64_t(kind) | size << 8 | how << 13) << 32 | uint64_t(extra) << 48) {}
    uint32_t pc() const { return uint32_t(what); }
    Kind kind() const { return Kind(what >> 32); }
    uint32_t size() const { return what >> 40 & 31; }
    uint32_t how() const { return what >> 45 & 7; }
    uint16_t extra() const { return uint16_t(what >> 48); }

    // Bits in which they differ, and those that tell a step of a warp from another: pc, kind and size.
    uint64_t operator^(const Event& other) const { return what ^ other.what; }
    static constexpr uint64_t step_mask = 0x1fffffffffff;
    bool same_step(const Event& other) const { return !((*this ^ other) & step_mask); }
    Event with_address(uint64_t its_address) const {
        Event event = *this;
        event.address = its_address;
        return event;
    }

    static constexpr uint16_t no_region = 0xffff;

   private:
    uint64_t what;
};
static_assert(sizeof(Event) == 16, "");

// Whether it may say what happened before what between threads, beside a barrier of the block or a collective of a warp.
inline bool is_ordering(Kind kind, uint32_t how) {
    if (kind == Kind::read || kind == Kind::write) return how & is_volatile;
    return kind != Kind::branch && (kind < Kind::barrier_arrived || kind > Kind::warp_passed);
}

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
    uint64_t zone_begin, zone_end;  // with the red zones around it, which are no one else's
    Space space;
    uint32_t number;                // counts the regions of a launch
};

// A block that runs. Several run at once only when they wait for each other.
struct BlockInfo {
    uint64_t number;          // x fastest
    uint64_t dynamic_shared;  // where its own is
};

struct LaunchInfo {
    uint32_t threads;               // of a block
    uint32_t dynamic_shared_bytes;
    std::vector<Region> regions;    // sorted by address; but for the following
    Region dynamic_shared;          // of the block that runs
    std::vector<const Region*> numbered;           // of them all; they stay where they are
    const Region* region(uint64_t address) const;  // whose zone the address is in, or nullptr
    const Region* region(const Event& access) const {
        return access.extra() == Event::no_region ? nullptr : numbered[access.extra()];
    }
    void number_regions();
    void turn_to(const BlockInfo& block) {  // whose dynamic shared memory is its own
        if (dynamic_shared.begin != block.dynamic_shared) move_dynamic_shared(block.dynamic_shared);
    }
    void move_dynamic_shared(uint64_t to);

    // What a compiler keeps between variables, such as where dynamic shared memory is. It accesses that by `size` bytes, and
    // only others do by fewer or more: they overrun `region`.
    struct Kept {
        Region region;
        uint32_t size;
    };
    std::vector<Kept> kept;
    const Region* overrun(uint64_t address, uint32_t size) const;  // by an access of what is kept, or nullptr
};

}  // namespace lens
}  // namespace kernels
