#include "worker.h"

#include <string.h>
#include <sys/mman.h>

#include "launch.h"

namespace kernels {

static constexpr size_t dynamic_shared_bytes = 256 << 10;

static void enter_barrier(Site site) { Worker::of_this_thread().barrier(site); }
static uint64_t enter_collective(const Lane& lane) { return Worker::of_this_thread().collective(lane); }
static const Runtime runtime = {enter_barrier, enter_collective};

// Barriers and collectives come through here, so the pointer is where it is read fastest; there is little room there.
static thread_local __attribute__((tls_model("initial-exec"))) Worker* this_threads_worker = nullptr;

Worker& Worker::of_this_thread() {
    if (!this_threads_worker) {
        static thread_local std::unique_ptr<Worker> owner;
        owner.reset(new Worker);
        this_threads_worker = owner.get();
    }
    return *this_threads_worker;
}

Worker::Worker() : fibers(fiber_main) {
    void* memory = mmap(nullptr, dynamic_shared_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    dynamic_shared = memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
    for (Waiting& one : waiting) one.where = Waiting::nowhere;
}

Worker::~Worker() {
    if (dynamic_shared) munmap(dynamic_shared, dynamic_shared_bytes);
}

void Worker::enter(const Launch& entered) {
    launch = &entered;
    thread = launch->kernel->thread();
    thread->block_dim = launch->block;
    thread->grid_dim = launch->grid;
    thread->count = launch->block.x * launch->block.y * launch->block.z;
    thread->dynamic_shared = dynamic_shared;
    thread->runtime = &runtime;
}

bool Worker::run_block(uint64_t number) {
    const dim3 grid = launch->grid;
    thread->block_index = {uint32_t(number % grid.x), uint32_t(number / grid.x % grid.y),
                           uint32_t(number / grid.x / grid.y)};
    thread->next_index = {0, 0, 0};
    thread->next = 0;
    const uint32_t warps = (thread->count + warp_size - 1) / warp_size;
    memset(thread->finished, 0, warps * sizeof(uint32_t));
    memset(group_count, 0, warps * sizeof(uint32_t));
    waiting_count = barrier_count = ready_first = ready_count = 0;
    error.clear();

    current = fibers.take();
    if (!current || !dynamic_shared) {
        error = "there is no memory for the stack of a thread";
        return false;
    }
    switch_context(main, current->context);
    if (error.empty()) return true;
    fibers.restart_all();
    for (Waiting& one : waiting) one.where = Waiting::nowhere;
    return false;
}

void Worker::fiber_main() {
    Worker& worker = of_this_thread();
    for (;;) {
        worker.launch->kernel->run(worker.launch->args);
        worker.fibers.give(worker.current);
        worker.switch_to(worker.successor());
    }
}

void Worker::switch_to(Fiber* fiber) {
    Fiber* from = current;
    current = fiber;
    switch_context(from->context, fiber ? fiber->context : main);
}

// Who goes on when the running fiber cannot: a thread that may, a thread not yet started, or nobody, which ends the block.
Fiber* Worker::successor() {
    if (!ready_count && thread->next < thread->count) {
        Fiber* fiber = fibers.take();
        if (!fiber) error = "there is no memory for the stacks of a block's threads: lower KERNELS_CPU_THREADS";
        return fiber;
    }
    if (!ready_count && waiting_count && !release_groups_that_lost_lanes() && error.empty()) error = explain();
    if (!ready_count || !error.empty()) return nullptr;
    const uint32_t next = ready[ready_first];
    ready_first = (ready_first + 1) % max_threads;
    --ready_count;
    return waiting[next].fiber;
}

void Worker::make_ready(uint32_t number) {
    waiting[number].where = Waiting::nowhere;
    --waiting_count;
    ready[(ready_first + ready_count++) % max_threads] = uint16_t(number);
}

// Keeps the running thread until it is made ready.
void Worker::wait(Waiting::Where where) {
    const uint32_t number = thread->running;
    const uint3 index = thread->thread_index;
    waiting[number].where = where;
    waiting[number].fiber = current;
    ++waiting_count;
    Fiber* next = successor();
    if (next != current) switch_to(next);
    thread->running = number;
    thread->thread_index = index;
}

void Worker::fail(std::string message) {
    error = std::move(message);
    switch_to(nullptr);
    __builtin_unreachable();
}

void Worker::barrier(Site site) {
    if (barrier_count++ == 0) {
        barrier_site = site;
        barriers_differ = false;
    } else if (site.line != barrier_site.line || strcmp(site.file, barrier_site.file) != 0) {
        barriers_differ = true;
    }
    waiting[thread->running].lane.site = site;
    if (barrier_count < thread->count) return wait(Waiting::at_barrier);

    if (barriers_differ) {
        waiting[thread->running].where = Waiting::at_barrier;
        fail(explain());
    }
    barrier_count = 0;
    for (uint32_t number = 0; number < thread->count; ++number)
        if (number != thread->running) make_ready(number);
}

}  // namespace kernels
