// Accesses of the same memory, at least one of them a write, of which none happens before the other; reads of shared memory
// that no one has written, or that an asynchronous copy is still to write.
#pragma once
#include <deque>

#include "findings.h"
#include "order.h"
#include "shadow.h"
#include "tape.h"

namespace kernels {
namespace lens {

class Races {
   public:
    Races(const LaunchInfo& launch, Findings& findings);
    void block_begins(const BlockInfo&);
    // The next events of a thread, in order. values: of its writes.
    void ran(const BlockInfo&, uint32_t thread, const Event* first, const Event* last, const uint32_t* values);
    void block_ends(const BlockInfo&);

    // The next events of lanes of a warp that take the same steps, step by step. Accesses are plain ones; `value`: where
    // among the lanes' values that of a write begins.
    void begin_together(const BlockInfo&, const Stretch* const* lanes, uint32_t count);
    void access_together(const Event& first, const uint64_t* address, size_t value);
    void synchronise_together(const Event&);

   private:
    struct Copy {
        uint64_t to;
        uint32_t bytes;
    };
    using Batch = std::vector<Copy>;

    // What a block may access, by the number of the region. `shadow` is null for constant memory; that of shared memory is
    // used again by later blocks: what is older than `begun` is not its own.
    struct Ground {
        Shadow* shadow = nullptr;
        uint64_t begin = 0, end = 0;
        uint32_t begun = 0;
        bool shared = false;
    };
    struct Shadows {
        std::vector<Shadow> shared;
        std::vector<Ground> all;
    };
    // A block that runs.
    struct Under {
        uint64_t number;
        BlockOrder order;
        Shadows shadows;
        std::vector<Batch> open;     // a thread's copies since its last commit; as in runtime/copies.h
        std::vector<std::deque<Batch>> own;
        std::unordered_map<uint64_t, std::deque<Batch>> queues;
    };
    // Who accesses, from one synchronisation to the next.
    struct Self {
        uint32_t thread;
        Actor actor;
        uint32_t clock;
        Knowledge knows;
        Self() = default;
        Self(const Under& block, uint32_t thread)
            : thread(thread), actor(block.order.actor(thread)), clock(block.order.stamp(thread)),
              knows(block.order, thread) {}
    };
    struct Access {
        const Self& self;
        const Event& event;
        const Ground& ground;
        const uint32_t* values;
        bool write, atomic;
    };
    struct Team {
        Under* block;
        uint32_t count, present;
        bool compared, alike;           // whether all know the same, which came from no one but the block:
        uint32_t clock, block_clock;
        const uint32_t* row;            // of the warp, if they know anything of that
        bool known;                     // what each knows
        Self self[32];
        const uint32_t* values[32];
    };

    Under& under_way(const BlockInfo&);
    void access(Under&, Self&, const Event&, const uint32_t* values);
    [[gnu::always_inline]] bool plain(const Ground&, const Self&, const Event&, const uint32_t* values);
    bool access_rows(const Event& first, const uint64_t* address, size_t value);
    template <bool write>
    void access_words(const Event& first, const uint64_t* address, size_t value);
    void access_of_lane(const Event& first, uint32_t lane, uint64_t address, size_t value);
    void compare_team();
    void check(const Access&, Shadow::Page&, uint32_t index, uint64_t address);
    void check_write(const Access&, const Record& write, uint32_t value, uint64_t address);
    void check_read(const Access&, Record& read, uint64_t address);
    void remember_read(const Access&, Shadow::Page&, uint32_t index, const Record& mine);
    void synchronise(Under&, uint32_t thread, const Event&);
    void land(Under&, uint32_t thread, const Event&);
    void report(Wrong, const Access&, const Record* earlier, uint64_t address);

    const LaunchInfo& launch;
    Findings& findings;
    std::vector<std::unique_ptr<Under>> blocks;
    std::vector<Shadows> spare;
    std::vector<Shadow> global;           // by the number of the region
    std::vector<uint64_t> numbers;        // of blocks, in the order in which they began
    BlockOrder::Places places;            // in global memory
    Team team;
};

}  // namespace lens
}  // namespace kernels
