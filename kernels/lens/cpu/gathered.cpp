#include "gathered.h"

namespace kernels {
namespace lens {

void Gathered::ended(Tape& tape, Stretches& its, uint32_t lanes) {
    if (its.ordering)
        for_each([&](const Stretches& one) {
            if (&one != &its) hand_on(tape, one, false);
        });
    if ((its.present | its.finished) == ~uint32_t(0) >> (warp_size - lanes)) hand_on(tape, its, true);
}

void Gathered::before_barrier_passed(Tape& tape, uint32_t barrier) {
    for_each([&](const Stretches& one) {
        if (one.barrier && one.barrier <= barrier) hand_on(tape, one, false);
    });
}

void Gathered::hand_on(Tape& tape) {
    for_each([&](const Stretches& one) { hand_on(tape, one, false); });
}

void Gathered::hand_on(Tape& tape, const Stretches& one, bool whole) {
    those[one.warp] = nullptr;
    there &= ~(1u << one.warp);
    tape.entries.push_back({Tape::Entry::lanes_ran, whole, one.block, &one});
}

void Gathered::forget() {
    for_each([&](const Stretches& one) { those[one.warp] = nullptr; });
    there = 0;
}

}  // namespace lens
}  // namespace kernels
