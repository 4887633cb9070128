// A CUDA block being run: its threads are started one after another; one that must wait keeps its fiber, and another
// fiber goes on. All of it happens on one OS thread.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "copies.h"
#include "faults.h"
#include "fiber.h"
#include "kernels/abi.h"
#include "launch.h"
#include "random.h"

namespace kernels {

class Worker;

extern const Services services;

// What a thread waits for that other threads bring about. `name` is for errors.
struct Condition {
    bool (*ready)(const void*);
    const void* state;
    const char* name;
};

// Where a thread waits.
struct Waiting {
    enum Where : uint8_t { nowhere, at_barrier, at_tile, in_collective, for_condition, polling } where;
    Fiber* fiber;
    const Site* site;            // on the thread's stack
    uint64_t value;              // which the thread brings to a barrier or a collective
    uint64_t argument_width;     // of a shuffle, as they come (abi.h)
    uint64_t result;             // of the barrier or the collective
    const Condition* condition;  // on the thread's stack
};

// The lanes of a warp that have arrived at the same collective with the same mask.
struct Group {
    Collective kind;
    uint32_t mask, arrived;
    const Site* site;  // of one of them
};

// The threads that have arrived at a barrier of part of the block.
struct Tile {
    uint32_t first, count, arrived;
};

class Block {
   public:
    enum State : uint8_t { going, finished, failed, parked, at_grid_barrier };

    static Block& running();  // on the calling OS thread

    explicit Block(Worker& worker);
    ~Block();
    bool begin(Launch& launch, uint64_t number);  // false: no memory
    char* dynamic_shared_of(const Settings& settings) const;  // where a launch has it
    void pass_grid_barrier();
    Fiber* successor();  // who goes on when the running thread cannot; nullptr: see `state`

    // What kernels call.
    uint32_t barrier(Barrier kind, uint32_t value, const Site& site);
    uint64_t collective(Collective kind, uint32_t mask, uint64_t value, uint64_t argument_width, const Site& site);
    void tile_barrier(uint32_t first, uint32_t count, const Site& site);
    void poll(const Site& site);
    void wait_until(Condition condition, const Site& site);
    Space space(const void* address) const;
    [[noreturn]] void fail(std::string message);
    [[noreturn]] void fail_at(const char* what, Site site);
    [[noreturn]] void fail_bound(uint32_t bound);
    [[noreturn]] void fail_by(const Fault& fault);
    Fault fault_at(const void* address) const;
    bool runs_on(const void* stack) const;
    const Settings& settings() const { return launch->settings; }
    bool starting() const { return thread->starting; }
    uint32_t thread_number() const { return thread->running; }

    std::string explain() const;  // why the block cannot go on
    std::string place() const;    // where its first waiting thread is
    std::string thread_name() const { return thread_name(thread->running); }
    std::string thread_name(uint32_t thread) const;

    State state = finished;
    std::string error;
    Fault fault;
    uint64_t number = 0;
    uint64_t grid_barrier = 0;  // barriers of the grid passed when it came to one
    bool moved;                 // something has happened since this was last set to false
    std::vector<char> shared;   // the library's thread-local memory, while the block is parked
    char* dynamic_shared;       // of this launch
    Copies copies;

   private:
    void wait(Waiting::Where where);
    void make_ready(uint32_t thread, bool first = false);
    void queue(uint32_t thread);
    void suspend(bool leave);
    void release_barrier();

    uint32_t warp_lanes(uint32_t warp) const;
    bool complete(uint32_t warp, const Group& group) const;
    void release(uint32_t warp, uint32_t group);
    bool release_groups_that_lost_lanes();
    bool release_active_lanes();
    bool release_conditions();
    bool release_barrier_without_returned();
    bool release_what_can_go_on();
    uint64_t shuffled(uint32_t warp, uint32_t lane, const Group& group);
    uint64_t lost(uint32_t warp, uint32_t lane, uint32_t source);
    [[noreturn]] void refuse_mask(uint32_t mask, const Site& site);
    [[noreturn]] void refuse_width(uint32_t width, const Site& site);
    std::string block_name() const;

    Worker& worker;
    char* dynamic_shared_memory;
    Launch* launch = nullptr;
    Thread* thread = nullptr;

    std::vector<Waiting> waiting;
    uint32_t waiting_count, barrier_count, vain_polls;
    bool barriers_differ;
    Barrier barrier_kind;
    const Site* barrier_site;
    std::vector<Tile> tiles;

    std::vector<uint16_t> ready;  // a ring of threads that may go on
    uint32_t ready_first, ready_count;
    uint32_t groups_released = 0;

    struct Groups {
        Group group[warp_size];
        uint32_t count;
    };
    std::vector<Groups> groups;  // one a warp

    std::vector<uint16_t> order;
    std::vector<void*> offers;
    Random random;
};

std::string describe(Site site);
std::string describe_lanes(uint32_t lanes);

}  // namespace kernels
