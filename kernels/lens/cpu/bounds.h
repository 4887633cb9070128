// Accesses of memory that is not the kernel's: past the ends of tensors and shared memory, past arrays of known size, at
// addresses that are no multiple of what is accessed, and at addresses where there is nothing.
#pragma once
#include "findings.h"

namespace kernels {
namespace lens {

class Bounds {
   public:
    Bounds(const LaunchInfo& launch, Findings& findings) : launch(launch), findings(findings) {}
    void check(const BlockInfo&, uint32_t thread, const Event&, const Region& whose_zone_it_is_in);
    void out_of_array(const BlockInfo&, uint32_t thread, uint32_t pc, int64_t index, uint32_t length);
    // The launch stops at this event of this thread, which would crash: an address that is not mapped or not aligned.
    void faulted(const BlockInfo&, uint32_t thread, const Event&);

   private:
    const LaunchInfo& launch;
    Findings& findings;
};

}  // namespace lens
}  // namespace kernels
