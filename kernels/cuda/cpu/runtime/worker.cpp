#include "worker.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include "kernels/returns.h"

namespace kernels {

// Barriers and collectives come through here, so the pointers are where they are read fastest; there is little room there.
static thread_local __attribute__((tls_model("initial-exec"))) Worker* this_threads_worker = nullptr;
static thread_local __attribute__((tls_model("initial-exec"))) Block* running = nullptr;

KERNELS_RETURNS_BY_A_JUMP
static uint32_t enter_barrier(Barrier kind, uint32_t value, const char* file, int line, const char* call) {
    return running->barrier(kind, value, {file, line, call});
}
KERNELS_RETURNS_BY_A_JUMP
static uint64_t enter_collective(uint64_t kind_line, uint32_t mask, uint64_t value, uint64_t argument_width, const char* file,
                                 const char* call) {
    return running->collective(Collective(uint32_t(kind_line)), mask, value, argument_width, {file, int(kind_line >> 32), call});
}
KERNELS_RETURNS_BY_A_JUMP
static void enter_tile(uint32_t first, uint32_t count, const Site& site) { running->tile_barrier(first, count, site); }
static void enter_poll(const Site& site) { running->poll(site); }
static const Runtime runtime = {enter_barrier, enter_collective, enter_tile, enter_poll, &services};

Block& Block::running() { return *kernels::running; }

Worker& Worker::current_thread() {
    if (!this_threads_worker) {
        static thread_local std::unique_ptr<Worker> owner;
        owner.reset(new Worker);
        this_threads_worker = owner.get();
    }
    return *this_threads_worker;
}

Block* Worker::running_block() {
    return kernels::running && this_threads_worker->current ? kernels::running : nullptr;
}

Worker::Worker() : fibers(fiber_main) {}
Worker::~Worker() {}

void Worker::work(Launch& entered, bool for_now) {
    // Waking other threads costs about as much as this; a launch that ends sooner does without.
    constexpr int64_t alone = 20;
    launch = &entered;
    thread = variables();
    if (launch->settings.guarded && !thread->guarded) guard_static_shared();
    random.state = mixed(launch->settings.seed);
    const int64_t start = for_now ? microseconds() : 0;
    ++launch->workers;
    // Blocks are handed out in order, and a worker with none parked ends the block it has begun: so the first failing
    // block is the same in every run.
    while (!launch->failed.load(std::memory_order_relaxed)) {
        const bool mix = launch->settings.ordered && parked.size() < 8 && random.below(2);
        Block* block = parked.empty() || tried >= parked.size() || mix ? begin_block() : nullptr;
        if (!block && parked.empty()) break;
        if (!block && tried < parked.size()) {
            block = parked_block();
            if (!block) continue;
        }
        if (block)
            run(*block);
        else if (!wait_for_others())
            break;
        if (for_now && microseconds() - start > alone) break;
    }
    set_stalled(false);
    --launch->workers;
    if (launch->grid_stuck && !parked.empty()) {
        auto before = [](Block* a, Block* b) { return a->number < b->number; };
        Block* first = *std::min_element(parked.begin(), parked.end(), before);
        launch->fail(first->number, first->explain());
    }
    if (launch->interrupted && !parked.empty()) launch->fail(parked.front()->number, parked.front()->place());
    if (launch->failed) abandon();
}

// Asked for once a launch: the library's code, which an interrupt takes the right to run, is then run by kernels alone.
Thread* Worker::variables() const {
    Thread* const own = launch->kernel->thread();
    if (launch->interrupted) launch->interrupt();
    return own;
}

SharedImage Worker::shared_image() const { return SharedImage::of(*launch->kernel, thread); }

// The next block of the launch, unless there is none or the GPU would be full.
Block* Worker::begin_block() {
    if (launch->next.load(std::memory_order_relaxed) >= launch->blocks) return nullptr;
    if (++launch->resident > launch->settings.resident) {
        --launch->resident;
        return nullptr;
    }
    uint64_t number = launch->next.fetch_add(1, std::memory_order_relaxed);
    if (number >= launch->blocks) {
        --launch->resident;
        return nullptr;
    }
    if (launch->settings.ordered) number = permuted(number, launch->blocks, launch->settings.seed);
    if (number) number += launch->skipped;
    if (idle.empty()) {
        all.emplace_back(new Block(*this));
        idle.push_back(all.back().get());
    }
    Block* block = idle.back();
    idle.pop_back();
    // References to dynamic shared memory are among the library's thread-local variables: made for another block, they
    // must be made anew. In a random order, what an earlier block left does not help a kernel that forgets a barrier.
    if (launch->settings.ordered ||
        (thread->dynamic_shared && thread->dynamic_shared != block->dynamic_shared_of(launch->settings)))
        shared_image().reset();
    thread->runtime = &runtime;
    if (!block->begin(*launch, number)) {
        launch->fail(number, block->error);
        idle.push_back(block);
        return nullptr;
    }
    tried = 0;
    set_stalled(false);
    return block;
}

// The parked block whose turn it is, or nullptr when it cannot go on.
Block* Worker::parked_block() {
    Block* block = parked.front();
    parked.pop_front();
    if (block->state == Block::at_grid_barrier) {
        if (launch->grid_barriers == block->grid_barrier) {
            parked.push_back(block);
            ++tried;
            return nullptr;
        }
        shared_image().restore(block->shared);
        block->pass_grid_barrier();
    } else {
        shared_image().restore(block->shared);
    }
    return block;
}

void Worker::run(Block& block) {
    running = &block;
    block.moved = false;
    block.state = Block::going;
    current = block.successor();
    if (current) {
        current->guard_while_running(true);
        switch_context(main, current->context);
    }
    running = nullptr;
    switch (block.state) {
        case Block::finished:
            idle.push_back(&block);
            launch->block_finished();
            break;
        case Block::failed: launch->fail(block.number, block.error, block.fault); return;
        default: park(block);
    }
    if (block.moved || block.state != Block::parked) {
        tried = 0;
        if (!parked.empty() || launch->stalled) launch->progress = microseconds();
        set_stalled(false);
    } else {
        ++tried;
    }
}

void Worker::park(Block& block) {
    shared_image().save(block.shared);
    parked.push_back(&block);
    if (block.state == Block::at_grid_barrier) {
        block.grid_barrier = launch->grid_barriers;
        launch->arrive_at_grid_barrier();
    }
}

// None of this worker's blocks can go on. False: nor will they.
bool Worker::wait_for_others() {
    tried = 0;
    if (launch->grid_stuck) return false;
    if (!launch->progress) launch->progress = microseconds();
    set_stalled(true);
    const double seconds = double(microseconds() - launch->progress) * 1e-6;
    if (launch->stalled == launch->workers && seconds > launch->settings.patience) {
        auto polls = [](Block* one) { return one->state == Block::parked; };
        auto block = std::find_if(parked.begin(), parked.end(), polls);
        if (block == parked.end()) block = parked.begin();
        launch->fail((*block)->number, (*block)->explain());
        return false;
    }
    // Others may want the processor.
    if (++rests < 100) sched_yield();
    else usleep(50);
    return true;
}

void Worker::set_stalled(bool value) {
    if (stalled == value) return;
    stalled = value;
    rests = 0;
    if (value)
        ++launch->stalled;
    else
        --launch->stalled;
}

// After a failure: what still waits is forgotten.
void Worker::abandon() {
    fibers.restart_all();
    parked.clear();
    tried = 0;
    idle.clear();
    for (auto& block : all) idle.push_back(block.get());
}

void Worker::fiber_main() {
    Worker& worker = current_thread();
    for (;;) {
        worker.launch->kernel->run(worker.launch->args);
        running->moved = true;
        worker.fibers.give(worker.current);
        worker.switch_to(running->successor());
    }
}

void Worker::switch_to(Fiber* fiber) {
    Fiber* from = current;
    current = fiber;
    from->guard_while_running(false);
    if (fiber) fiber->guard_while_running(true);
    switch_context(from->context, fiber ? fiber->context : main);
}

}  // namespace kernels

// Called on every branch of a kernel that reads volatile memory (build.py): a loop that waits for such memory must let
// others go on. A thread that is just being started must not be interrupted: what it takes from `thread` belongs together.
extern "C" __attribute__((visibility("default"))) void __sanitizer_cov_trace_pc() {
    static thread_local __attribute__((tls_model("initial-exec"))) int branches = 4096;
    if (--branches >= 0) return;
    branches = 4096;
    if (kernels::running && !kernels::running->starting()) kernels::running->poll({nullptr, 0, "a loop"});
}
