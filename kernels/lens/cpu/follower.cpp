#include "follower.h"

namespace kernels {
namespace lens {

void Follower::follow(Tape& tape) {
    for (const Tape::Entry& entry : tape.entries) observers.take(entry);
    tape.entries.clear();
}

void Follower::turn() {
    earlier += recorded->length() - looked_at;
    looked_at = 0;
    if (other.valid()) other.get();
    // Where the system has no more threads, it is left until it is asked for.
    other = std::async([this, tape = recorded] {
        follow(*tape);
        tape->clear();
    });
    recorded = recorded == &tapes[0] ? &tapes[1] : &tapes[0];
}

Observers& Follower::caught_up() {
    if (other.valid()) other.get();
    follow(*recorded);
    earlier = 0;
    looked_at = recorded->length();
    return observers;
}

}  // namespace lens
}  // namespace kernels
