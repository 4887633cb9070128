// A worker runs blocks on one OS thread, one block at a time. It starts the block's threads one after another; a thread
// that must wait keeps its fiber, and another fiber goes on.
#pragma once
#include <string>

#include "fiber.h"
#include "kernels/abi.h"

namespace kernels {

struct Launch;

// Where a thread waits.
struct Waiting {
    enum Where : uint8_t { nowhere, at_barrier, in_collective } where;
    Fiber* fiber;
    Lane lane;        // for a barrier only its site holds
    uint64_t result;  // of the collective
};

// The lanes of a warp that have arrived at the same collective with the same mask.
struct Group {
    Collective kind;
    uint32_t mask, arrived;
};

class Worker {
   public:
    static Worker& of_this_thread();
    ~Worker();

    void enter(const Launch& launch);
    bool run_block(uint64_t number);  // false: `error` says what was wrong
    std::string error;

    void barrier(Site site);
    uint64_t collective(const Lane& lane);

   private:
    Worker();

    static void fiber_main();
    void switch_to(Fiber* fiber);  // to the main context when fiber is nullptr
    void wait(Waiting::Where where);
    Fiber* successor();
    void make_ready(uint32_t thread);
    [[noreturn]] void fail(std::string message);

    uint32_t warp_lanes(uint32_t warp) const;
    bool complete(uint32_t warp, const Group& group) const;
    void release(uint32_t warp, uint32_t group);
    bool release_groups_that_lost_lanes();
    uint64_t shuffled(uint32_t warp, uint32_t lane, uint32_t arrived);

    std::string explain() const;  // why the block cannot go on
    std::string block_name() const;
    std::string thread_name(uint32_t thread) const;

    FiberPool fibers;
    Context main;
    Fiber* current = nullptr;
    char* dynamic_shared;

    const Launch* launch = nullptr;
    Thread* thread = nullptr;

    Waiting waiting[max_threads];
    uint32_t waiting_count, barrier_count;
    bool barriers_differ;
    Site barrier_site;

    uint16_t ready[max_threads];  // a ring of threads that may go on
    uint32_t ready_first, ready_count;

    Group groups[max_threads / warp_size][warp_size];
    uint32_t group_count[max_threads / warp_size];
};

std::string describe(Collective kind);
std::string describe(Site site);
std::string describe_lanes(uint32_t lanes);

}  // namespace kernels
