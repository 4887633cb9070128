// Who sees the events of a traced launch beside the counters.
#pragma once
#include <memory>
#include <vector>

#include "events.h"

namespace kernels {
namespace lens {

void add_consumers(std::vector<std::unique_ptr<Consumer>>& consumers, const LaunchInfo& launch);

}  // namespace lens
}  // namespace kernels
