// Who looks at what was recorded, of one launch.
#pragma once
#include "bounds.h"
#include "counters.h"
#include "races.h"
#include "stretches.h"

namespace kernels {
namespace lens {

struct Observers {
    explicit Observers(const LaunchInfo& launch) : counters(launch), bounds(launch, findings), races(launch, findings) {}
    // whole: all lanes of the warp that are left have come.
    void take(const Stretches&, bool whole);

    Findings findings;
    Counters counters;
    Bounds bounds;
    Races races;

   private:
    struct Taken {
        size_t events, values;  // of each lane
    };
    Taken take_together(const Stretches&);
};

}  // namespace lens
}  // namespace kernels
