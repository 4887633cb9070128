// Accesses of the same memory, at least one of them a write, of which none happens before the other; reads of shared memory
// that nobody has written, or that an asynchronous copy is still to write.
#pragma once
#include <deque>

#include "findings.h"
#include "order.h"
#include "regions.h"
#include "shadow.h"

namespace kernels {
namespace lens {

class Races : public Consumer {
   public:
    Races(const LaunchInfo& launch, Findings& findings);
    void block_begins(const BlockInfo&) override;
    void ran(const BlockInfo&, uint32_t thread, const Event* first, const Event* last) override;
    void block_ends(const BlockInfo&) override;

   private:
    struct Copy {
        uint64_t to;
        uint32_t bytes;
    };
    using Batch = std::vector<Copy>;

    // A block under way. Its shared memory's shadow is used again by later blocks: what is older than `order.begun` is not
    // its own.
    struct Under {
        uint64_t number;
        BlockOrder order;
        std::vector<Shadow> shared;  // by the number of the region
        std::vector<Batch> open;     // a thread's copies since its last commit; as in runtime/copies.h
        std::vector<std::deque<Batch>> own;
        std::unordered_map<uint64_t, std::deque<Batch>> queues;
    };
    struct Access {
        Under& block;
        const Event& event;
        const Region& region;
        uint32_t thread;
        Actor actor;
        uint32_t clock, begun;  // what is older than `begun` is of another block
        bool shared, write, atomic;
    };

    Under& under_way(const BlockInfo&);
    Shadow* shadow_of(Under&, const Region&);
    void access(Under&, uint32_t thread, const Event&);
    void check(const Access&, Shadow::Page&, uint32_t index, uint64_t address);
    void check_write(const Access&, const Record& write, uint32_t value, uint64_t address);
    void check_read(const Access&, Record& read, uint64_t address);
    void remember_read(const Access&, Shadow::Page&, uint32_t index, const Record& mine);
    void synchronise(Under&, uint32_t thread, const Event&);
    void land(Under&, uint32_t thread, const Event&);
    void report(Wrong, const Access&, const Record* earlier, uint64_t address);

    const LaunchInfo& launch;
    Findings& findings;
    Regions seen;
    std::vector<std::unique_ptr<Under>> blocks;
    std::vector<std::vector<Shadow>> spare;
    std::vector<Shadow> global;           // by the number of the region
    std::vector<uint64_t> numbers;        // of blocks, in the order in which they began
    BlockOrder::Places places;            // in global memory
};

}  // namespace lens
}  // namespace kernels
