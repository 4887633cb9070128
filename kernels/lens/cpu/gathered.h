// The stretches of the block that runs, until they are handed to the observers: those of a warp together, once all its lanes
// have come.
//
// So they are not handed on in the order in which they ran. That makes no difference as long as nothing between them says
// what happened before what; where something does, what came before goes on first.
#pragma once
#include <memory>

#include "kernels/abi.h"
#include "observers.h"
#include "stretches.h"

namespace kernels {
namespace lens {

class Gathered {
   public:
    // Where a stretch of the thread is gathered, which begins.
    Stretches& begin(Observers&, const BlockInfo&, uint32_t thread);
    // A stretch has been added. lanes: that the warp has.
    void ended(Observers&, Stretches&, uint32_t lanes);
    void before_barrier_passed(Observers&, uint32_t barrier);
    void hand_on(Observers&);  // all of them, whoever else is to come
    void hand_on(Observers&, uint32_t warp);
    void forget();

    bool empty() const { return !there; }
    const BlockInfo* block() const { return its; }
    const Stretches* of(uint32_t warp) const { return those[warp]; }

   private:
    void hand_on(Observers&, Stretches&, bool whole);
    template <class Visit>
    void for_each(Visit visit) {
        for (uint32_t rest = there; rest; rest &= rest - 1) visit(*those[__builtin_ctz(rest)]);
    }

    const BlockInfo* its = nullptr;
    uint32_t there = 0;  // of which warps there are any, one bit each
    Stretches* those[max_threads / warp_size] = {};  // of each warp
    std::vector<std::unique_ptr<Stretches>> all;
    std::vector<Stretches*> spare;
};

}  // namespace lens
}  // namespace kernels
