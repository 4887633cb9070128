// Accesses of memory that is not the kernel's: past the ends of tensors and shared memory, past arrays of known size, at
// addresses that are no multiple of what is accessed, and at addresses where there is nothing.
#pragma once
#include "findings.h"
#include "regions.h"

namespace kernels {
namespace lens {

class Bounds : public Consumer {
   public:
    Bounds(const LaunchInfo& launch, Findings& findings) : launch(launch), seen(launch), findings(findings) {}
    void ran(const BlockInfo&, uint32_t thread, const Event* first, const Event* last) override;
    void faulted(const BlockInfo&, uint32_t thread, const Event&) override;

   private:
    void check(const BlockInfo&, uint32_t thread, const Event&, const Region*);

    const LaunchInfo& launch;
    Regions seen;
    Findings& findings;
};

}  // namespace lens
}  // namespace kernels
