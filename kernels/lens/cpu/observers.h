// Who looks at what was recorded, of one launch.
#pragma once
#include "counters.h"
#include "races.h"
#include "tape.h"

namespace kernels {
namespace lens {

class Observers {
    LaunchInfo launch;  // as it is for the block that is looked at

   public:
    explicit Observers(const LaunchInfo&);
    void take(const Tape::Entry&);

    Findings findings;
    Counters counters;

   private:
    struct Taken {
        size_t events, values;  // of each lane
    };
    void take(const Stretches&, bool whole);
    Taken take_together(const Stretches&);

    Races races;
};

}  // namespace lens
}  // namespace kernels
