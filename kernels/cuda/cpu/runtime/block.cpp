#include "block.h"

#include <string.h>
#include <sys/mman.h>

#include <numeric>

#include "worker.h"

namespace kernels {

// A thread that finds memory unchanged so many times lets others go first; when all have done so for some rounds, the
// block waits for other blocks.
static constexpr int32_t reads_in_a_turn = 64;
static constexpr uint32_t rounds_of_polls = 4;

Block::Block(Worker& worker) : worker(worker) {
    void* memory = mmap(nullptr, dynamic_shared_bytes + 2 * dynamic_shared_guard, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    dynamic_shared_memory = memory == MAP_FAILED ? nullptr : static_cast<char*>(memory) + dynamic_shared_guard;
    if (dynamic_shared_memory) mprotect(dynamic_shared_memory, dynamic_shared_bytes, PROT_READ | PROT_WRITE);
}

Block::~Block() {
    if (dynamic_shared_memory)
        munmap(dynamic_shared_memory - dynamic_shared_guard, dynamic_shared_bytes + 2 * dynamic_shared_guard);
}

// So that it ends where no memory is.
char* Block::dynamic_shared_of(const Settings& settings) const {
    if (!settings.guarded || !dynamic_shared_memory) return dynamic_shared_memory;
    const size_t bytes = (size_t(settings.dynamic_shared_bytes) + dynamic_shared_step - 1) & ~(dynamic_shared_step - 1);
    return dynamic_shared_memory + dynamic_shared_bytes - bytes;
}

bool Block::begin(Launch& launched, uint64_t which) {
    const Settings& settings = launched.settings;
    const uint32_t *grid = settings.grid, *block = settings.block;
    launch = &launched;
    number = which;
    thread = worker.thread;
    thread->block_index = {uint32_t(number % grid[0]), uint32_t(number / grid[0] % grid[1]),
                           uint32_t(number / grid[0] / grid[1])};
    thread->block_dim = dim3(block[0], block[1], block[2]);
    thread->grid_dim = dim3(grid[0], grid[1], grid[2]);
    thread->count = block[0] * block[1] * block[2];
    thread->next_index = {0, 0, 0};
    thread->next = 0;
    thread->patience = reads_in_a_turn;
    thread->starting = true;
    thread->one_at_end = false;
    thread->dynamic_shared = dynamic_shared = dynamic_shared_of(settings);
    thread->cooperative = settings.cooperative;
    const uint32_t warps = (thread->count + warp_size - 1) / warp_size;
    memset(thread->finished, 0, warps * sizeof(uint32_t));

    if (waiting.size() < thread->count) {
        waiting.resize(thread->count);
        ready.resize(thread->count);
        offers.resize(thread->count);
        groups.resize(warps);
    }
    for (uint32_t warp = 0; warp < warps; ++warp) groups[warp].count = 0;
    waiting_count = barrier_count = vain_polls = ready_first = ready_count = 0;
    if (state != finished)
        for (Waiting& one : waiting) one.where = Waiting::nowhere;
    tiles.clear();
    copies.forget();
    error.clear();
    fault = {};
    thread->offers = offers.data();
    thread->order = nullptr;
    if (settings.ordered) {
        random.state = mixed(settings.seed ^ mixed(number + 1));
        order.resize(thread->count);
        std::iota(order.begin(), order.end(), uint16_t(0));
        for (uint32_t left = thread->count; left > 1; --left) std::swap(order[left - 1], order[random.below(left)]);
        thread->order = order.data();
        if (dynamic_shared) memset(dynamic_shared, 0xff, settings.dynamic_shared_bytes);  // floats: NaN
    }
    if (!dynamic_shared) error = "there is no memory for the dynamic shared memory of a block";
    return error.empty();
}

// Who goes on when the running fiber cannot: a thread not yet started, a thread that may go on, or no one.
Fiber* Block::successor() {
    const bool mix = thread->order && ready_count && random.below(2);
    if (thread->next < thread->count && (!ready_count || vain_polls || mix)) {
        Fiber* fiber = worker.fibers.take();
        if (fiber) {
            vain_polls = 0;
            moved = true;
            thread->starting = true;
            return fiber;
        }
        error = "there is no memory for the stacks of a block's threads: lower KERNELS_CPU_THREADS";
    }
    if (!ready_count && waiting_count && error.empty() && !release_what_can_go_on() && error.empty())
        error = explain();
    if (ready_count && vain_polls > rounds_of_polls * ready_count) {
        vain_polls = 0;
        if (!release_what_can_go_on() && error.empty()) {
            state = parked;
            return nullptr;
        }
    }
    if (!ready_count || !error.empty()) {
        state = error.empty() ? finished : failed;
        return nullptr;
    }
    if (thread->order) std::swap(ready[ready_first], ready[(ready_first + random.below(ready_count)) % thread->count]);
    const uint32_t next = ready[ready_first];
    if (++ready_first == thread->count) ready_first = 0;
    --ready_count;
    waiting[next].where = Waiting::nowhere;
    return waiting[next].fiber;
}

// When the block has nothing else to do: groups whose missing lanes have finished, conditions that have come about, a
// barrier whose missing threads have returned, and last the lanes that ask who is active.
bool Block::release_what_can_go_on() {
    return release_groups_that_lost_lanes() || release_conditions() || release_barrier_without_returned() ||
           release_active_lanes();
}

bool Block::release_conditions() {
    bool released = false;
    for (uint32_t number = 0; number < thread->count; ++number) {
        const Waiting& one = waiting[number];
        if (one.where != Waiting::for_condition || !one.condition->ready(one.condition->state)) continue;
        make_ready(number);
        released = true;
    }
    return released;
}

void Block::queue(uint32_t number) {
    uint32_t place = ready_first + ready_count++;
    if (place >= thread->count) place -= thread->count;
    ready[place] = uint16_t(number);
}

void Block::make_ready(uint32_t number, bool first) {
    waiting[number].where = Waiting::nowhere;
    --waiting_count;
    vain_polls = 0;
    moved = true;
    if (!first) return queue(number);
    ready_first = (ready_first ? ready_first : thread->count) - 1;
    ++ready_count;
    ready[ready_first] = uint16_t(number);
}

// Lets others run until the running thread's turn comes again; `leave`: other blocks too.
void Block::suspend(bool leave) {
    const uint32_t number = thread->running;
    const uint3 index = thread->thread_index;
    waiting[number].fiber = worker.current;
    Fiber* next = leave ? nullptr : successor();
    if (next != worker.current) worker.switch_to(next);
    thread->running = number;
    thread->thread_index = index;
    thread->starting = false;
}

// Keeps the running thread until it is made ready.
void Block::wait(Waiting::Where where) {
    waiting[thread->running].where = where;
    ++waiting_count;
    suspend(false);
}

void Block::poll(const Site& site) {
    thread->patience = reads_in_a_turn;
    Waiting& me = waiting[thread->running];
    me.where = Waiting::polling;
    me.site = &site;
    queue(thread->running);
    ++vain_polls;
    suspend(false);
}

// Keeps the running thread until other threads have brought a condition about.
void Block::wait_until(Condition condition, const Site& site) {
    if (condition.ready(condition.state)) return;
    Waiting& me = waiting[thread->running];
    me.condition = &condition;
    const Site named = {site.file, site.line, condition.name};
    me.site = &named;
    wait(Waiting::for_condition);
}

Space Block::space(const void* address) const {
    const auto within = [address](const char* start, size_t bytes) {
        return uintptr_t(address) - uintptr_t(start) < bytes;
    };
    const SharedImage shared = SharedImage::of(*launch->kernel, thread);
    if (within(dynamic_shared_memory, dynamic_shared_bytes) || within(shared.data, shared.bytes)) return Space::shared;
    return worker.current->holds(address) ? Space::local : Space::global;
}

void Block::fail(std::string message) {
    error = std::move(message);
    state = failed;
    worker.switch_to(nullptr);
    __builtin_unreachable();
}

void Block::fail_at(const char* what, Site site) {
    fail(describe({site.file, site.line, what}) + " in " + thread_name());
}

void Block::fail_bound(uint32_t bound) {
    const uint32_t* block = launch->settings.block;
    fail("block is (" + std::to_string(block[0]) + ", " + std::to_string(block[1]) + ", " + std::to_string(block[2]) +
         "): " + std::to_string(thread->count) + " threads, but this kernel can have " + std::to_string(bound) +
         " a block, by its __launch_bounds__");
}

}  // namespace kernels
