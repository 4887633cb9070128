// Barriers: of a block, of part of a block, and of the grid.
#include <string.h>

#include "block.h"
#include "worker.h"

namespace kernels {

static bool differ(const Site& a, const Site& b) { return a.line != b.line || (a.file != b.file && strcmp(a.file, b.file) != 0); }

uint32_t Block::barrier(Barrier kind, uint32_t value, const Site& site) {
    const uint32_t number = thread->running;
    Waiting& me = waiting[number];
    if (kind == Barrier::grid && !thread->cooperative)
        fail(describe(site) + " needs a launch whose blocks are all resident together: " +
             "RawKernel(…, enable_cooperative_groups=True)");
    if (barrier_count++ == 0) {
        barrier_kind = kind;
        barrier_site = &site;
        barriers_differ = false;
    } else if (kind != barrier_kind || differ(site, *barrier_site)) {
        barriers_differ = true;
    }
    me.site = &site;
    me.value = value;
    if (barrier_count < thread->count) {
        wait(Waiting::at_barrier);
        return uint32_t(me.result);
    }

    me.where = Waiting::at_barrier;
    ++waiting_count;
    if (barriers_differ) fail(explain());
    if (kind == Barrier::grid) {
        state = at_grid_barrier;
        suspend(true);
        return 0;
    }
    release_barrier();
    if (thread->order && launch->blocks > 1 && random.below(8) == 0) {
        state = parked;
        suspend(true);
    } else {
        suspend(false);
    }
    return uint32_t(me.result);
}

// Every thread is at the barrier: each receives the result, and may go on.
void Block::release_barrier() {
    barrier_count = 0;
    uint32_t count = 0;
    if (barrier_kind != Barrier::sync)
        for (uint32_t number = 0; number < thread->count; ++number) count += waiting[number].value != 0;
    if (barrier_kind == Barrier::all) count = count == thread->count;
    if (barrier_kind == Barrier::any) count = count != 0;
    // The last to arrive is queued last.
    const uint32_t last = thread->running;
    for (uint32_t number = 0; number < thread->count; ++number) {
        waiting[number].result = count;
        if (number != last) make_ready(number);
    }
    make_ready(last);
}

void Block::pass_grid_barrier() { release_barrier(); }

void Block::tile_barrier(uint32_t first, uint32_t count, const Site& site) {
    count = first + count > thread->count ? thread->count - first : count;
    size_t index = 0;
    while (index < tiles.size() && (tiles[index].first != first || tiles[index].count != count)) ++index;
    if (index == tiles.size()) tiles.push_back({first, count, 0});
    waiting[thread->running].site = &site;
    if (++tiles[index].arrived < count) return wait(Waiting::at_tile);

    tiles[index] = tiles.back();
    tiles.pop_back();
    for (uint32_t number = first; number < first + count; ++number)
        if (number != thread->running) make_ready(number);
}

}  // namespace kernels
