#include "gathered.h"

namespace kernels {
namespace lens {

Stretches& Gathered::begin(Observers& observers, const BlockInfo& block, uint32_t thread) {
    const uint32_t warp = thread / warp_size;
    // A lane that goes on while others of its warp have not come.
    if (those[warp] && those[warp]->has(thread)) hand_on(observers, *those[warp], false);
    if (those[warp]) return *those[warp];
    if (spare.empty()) {
        all.emplace_back(new Stretches);
        spare.push_back(all.back().get());
    }
    its = &block;
    there |= 1u << warp;
    those[warp] = spare.back();
    spare.pop_back();
    those[warp]->block = &block;
    those[warp]->warp = warp;
    return *those[warp];
}

void Gathered::ended(Observers& observers, Stretches& its, uint32_t lanes) {
    if (its.ordering)
        for_each([&](Stretches& one) {
            if (&one != &its) hand_on(observers, one, false);
        });
    if ((its.present | its.finished) == ~uint32_t(0) >> (warp_size - lanes)) hand_on(observers, its, true);
}

void Gathered::before_barrier_passed(Observers& observers, uint32_t barrier) {
    for_each([&](Stretches& one) {
        if (one.barrier && one.barrier <= barrier) hand_on(observers, one, false);
    });
}

void Gathered::hand_on(Observers& observers) {
    for_each([&](Stretches& one) { hand_on(observers, one, false); });
}

void Gathered::hand_on(Observers& observers, uint32_t warp) { hand_on(observers, *those[warp], false); }

void Gathered::hand_on(Observers& observers, Stretches& one, bool whole) {
    those[one.warp] = nullptr;
    there &= ~(1u << one.warp);
    observers.take(one, whole);
    one.clear();
    spare.push_back(&one);
}

void Gathered::forget() {
    for_each([&](Stretches& one) {
        those[one.warp] = nullptr;
        one.clear();
        spare.push_back(&one);
    });
    there = 0;
}

}  // namespace lens
}  // namespace kernels
