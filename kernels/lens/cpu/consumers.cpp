#include "consumers.h"

#include "bounds.h"
#include "races.h"

namespace kernels {
namespace lens {

void add_consumers(std::vector<std::unique_ptr<Consumer>>& consumers, const LaunchInfo& launch) {
    auto findings = std::make_unique<Findings>();
    consumers.push_back(std::make_unique<Bounds>(launch, *findings));
    consumers.push_back(std::make_unique<Races>(launch, *findings));
    consumers.push_back(std::move(findings));
}

}  // namespace lens
}  // namespace kernels
