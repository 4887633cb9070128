// A worker runs blocks on one OS thread: one at a time, until it ends or all of its threads wait for other blocks. Then the
// worker goes on with another and comes back.
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "block.h"
#include "shared_image.h"
#include "static_shared.h"

namespace kernels {

class Worker {
   public:
    static Worker& current_thread();
    static Block* running_block();  // on this OS thread; nullptr: none
    ~Worker();

    // Runs blocks until none is left or one fails; `for_now`, stops early when others should be asked to help.
    void work(Launch& launch, bool for_now = false);
    void switch_to(Fiber* fiber);  // from the running fiber; nullptr: to the worker itself

    const char* near_static_shared(const void* address) const;  // where it begins; nullptr: the address is elsewhere

    FiberPool fibers;
    Fiber* current = nullptr;
    Thread* thread = nullptr;  // the built-in variables of the launch's library on this OS thread

   private:
    Worker();
    Thread* variables() const;
    SharedImage shared_image() const;
    void guard_static_shared();
    static void fiber_main();

    Block* begin_block();
    Block* parked_block();
    void run(Block& block);
    void park(Block& block);
    bool wait_for_others();
    void set_stalled(bool value);
    void abandon();

    SignalStack signal_stack;
    std::vector<GuardedShared> static_shared;
    Context main;
    Launch* launch = nullptr;
    SharedImage image;
    std::vector<std::unique_ptr<Block>> all;
    std::vector<Block*> idle;
    std::deque<Block*> parked;
    uint32_t tried = 0;  // parked blocks that could not go on, one after another
    uint32_t rests = 0;
    Random random;
    bool stalled = false;
};

}  // namespace kernels
