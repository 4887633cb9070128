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

// Every thread that is left is at the barrier: each receives the result, and may go on.
void Block::release_barrier() {
    const auto waits = [&](uint32_t number) { return waiting[number].where == Waiting::at_barrier; };
    uint32_t count = 0;
    if (barrier_kind != Barrier::sync)
        for (uint32_t number = 0; number < thread->count; ++number) count += waits(number) && waiting[number].value != 0;
    if (barrier_kind == Barrier::all) count = count == barrier_count;
    if (barrier_kind == Barrier::any) count = count != 0;
    barrier_count = 0;
    // The last to arrive is queued last.
    const uint32_t last = thread->running;
    for (uint32_t number = 0; number < thread->count; ++number) {
        if (!waits(number)) continue;
        waiting[number].result = count;
        if (number != last) make_ready(number);
    }
    if (waits(last)) make_ready(last);
}

// A barrier is released when threads that exit are all that holds it up (PTX manual, exit). Here only where they may have
// left by a `return` before it: who passes it by, to the kernel's end, makes a mistake, though such hardware lets that
// pass, too.
bool Block::release_barrier_without_returned() {
    if (!barrier_count || barriers_differ || barrier_kind == Barrier::grid || thread->one_at_end) return false;
    uint32_t gone = 0;
    for (uint32_t warp = 0; warp * warp_size < thread->count; ++warp)
        gone += uint32_t(__builtin_popcount(thread->finished[warp]));
    if (barrier_count + gone < thread->count || !settings().may_have_returned_before(*barrier_site)) return false;
    release_barrier();
    return true;
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
