#include <algorithm>

#include "events.h"
#include "kernels/abi.h"

namespace kernels {
namespace lens {

const Region* LaunchInfo::region(uint64_t address) const {
    if (address - dynamic_shared.zone_begin < dynamic_shared.zone_end - dynamic_shared.zone_begin) return &dynamic_shared;
    auto after = std::upper_bound(regions.begin(), regions.end(), address,
                                  [](uint64_t at, const Region& region) { return at < region.zone_begin; });
    if (after == regions.begin()) return nullptr;
    --after;
    return address < after->zone_end ? &*after : nullptr;
}

void LaunchInfo::number_regions() {
    numbered.assign(dynamic_shared.number + 1, &dynamic_shared);
    for (const Region& region : regions) numbered[region.number] = &region;
}

void LaunchInfo::move_dynamic_shared(uint64_t to) {
    Region& region = dynamic_shared;
    region.begin = to;
    region.end = region.begin + dynamic_shared_bytes;
    region.zone_begin = region.begin - dynamic_shared_guard;
    region.zone_end = region.begin + kernels::dynamic_shared_bytes + dynamic_shared_guard;
}

const Region* LaunchInfo::overrun(uint64_t address, uint32_t size) const {
    for (const Kept& one : kept) {
        const bool here = address - one.region.zone_begin < one.region.zone_end - one.region.zone_begin;
        if (here && size != one.size) return &one.region;
    }
    return nullptr;
}

}  // namespace lens
}  // namespace kernels
