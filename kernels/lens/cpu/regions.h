// The region of an access, which is mostly the one that its instruction was seen in before.
#pragma once
#include "events.h"

namespace kernels {
namespace lens {

class Regions {
   public:
    explicit Regions(const LaunchInfo& launch) : launch(launch) {}
    const Region* of(const Event& event) {
        if (event.pc >= last.size()) last.resize(event.pc + 1);
        const Region*& region = last[event.pc];
        if (!region || event.address - region->begin >= region->end - region->begin) region = launch.region(event.address);
        return region;
    }

   private:
    const LaunchInfo& launch;
    std::vector<const Region*> last;  // by pc
};

}  // namespace lens
}  // namespace kernels
