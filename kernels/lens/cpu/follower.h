// Looks at what was recorded while the kernel runs on: another OS thread follows the run, a tape behind.
//
// All that it looks at is on its tape. So it comes to the same as if the kernel waited at each step until it was looked at.
#pragma once
#include <future>

#include "observers.h"

namespace kernels {
namespace lens {

class Follower {
   public:
    explicit Follower(const LaunchInfo& launch) : observers(launch) {}

    Tape& tape() { return *recorded; }  // what is recorded goes there
    size_t behind() const { return earlier + recorded->length() - looked_at; }  // events recorded since it had caught up
    void turn();             // nothing else will be put on the tape: it is followed, and another recorded
    Observers& caught_up();  // when all that was recorded has been followed; until the next turn

   private:
    void follow(Tape&);

    Observers observers;
    Tape tapes[2];
    Tape* recorded = &tapes[0];
    std::future<void> other;  // when the other has been followed
    size_t earlier = 0, looked_at = 0;  // events of earlier tapes since it had caught up, and of this one before
};

}  // namespace lens
}  // namespace kernels
