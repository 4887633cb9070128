// The stretches of the block that runs, until it is their turn to be looked at: those of a warp together, once all its lanes
// have come.
//
// So it is not the order in which they ran. That makes no difference as long as nothing between them says what happened
// before what; where something does, what came before goes on first.
#pragma once
#include "kernels/abi.h"
#include "tape.h"

namespace kernels {
namespace lens {

class Gathered {
   public:
    // Where a stretch of the thread is gathered, which begins.
    Stretches& begin(Tape& tape, const BlockInfo& block, uint32_t thread) {
        const uint32_t warp = thread / warp_size;
        // A lane that goes on while others of its warp have not come.
        if (those[warp] && those[warp]->has(thread)) hand_on(tape, warp);
        if (!those[warp]) {
            its = block.number;
            there |= 1u << warp;
            those[warp] = &tape.begin(block, warp);
        }
        return *those[warp];
    }
    // A stretch has been added. lanes: that the warp has.
    void ended(Tape&, Stretches&, uint32_t lanes);
    void before_barrier_passed(Tape&, uint32_t barrier);
    void hand_on(Tape&);  // all of them, whoever else is to come
    void hand_on(Tape& tape, uint32_t warp) { hand_on(tape, *those[warp], false); }
    void forget();

    bool empty() const { return !there; }
    uint64_t block() const { return its; }
    const Stretches* of(uint32_t warp) const { return those[warp]; }

   private:
    void hand_on(Tape&, const Stretches&, bool whole);
    template <class Visit>
    void for_each(Visit visit) {
        for (uint32_t rest = there; rest; rest &= rest - 1) visit(*those[__builtin_ctz(rest)]);
    }

    uint64_t its = 0;    // number
    uint32_t there = 0;  // of which warps there are any, one bit each
    Stretches* those[max_threads / warp_size] = {};  // of each warp
};

}  // namespace lens
}  // namespace kernels
