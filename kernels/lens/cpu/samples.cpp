#include "samples.h"

#include <algorithm>

namespace kernels {
namespace lens {

void Samples::add(uint64_t warp, const Request& request, const Region& region) {
    // Sectors begin at multiples of 32 bytes. Where in the banks an array of shared memory begins is up to the compiler of
    // the GPU, and makes no difference to what conflicts: here in the first.
    const uint32_t boundary = region.space == Space::shared ? 4 : 32;
    Sample sample = {warp, region.number, uint32_t(region.begin % boundary), request.lanes, {}, {}};
    for (uint32_t i = 0; i < request.lanes; ++i) {
        sample.lane[i] = request.lane[i];
        sample.offset[i] = int64_t(request.address[i] - (region.begin - sample.first));
    }
    auto later = [](uint64_t warp, const Sample& one) { return warp < one.warp; };
    samples.insert(std::upper_bound(samples.begin(), samples.end(), warp, later), sample);
    if (samples.size() > most) samples.pop_back();
    if (samples.size() == most) before = samples.back().warp;
}

void Samples::write(std::string& text) const {
    auto list = [&](uint32_t count, auto&& value) {
        text += "[";
        for (uint32_t i = 0; i < count; ++i) text += (i ? ", " : "") + std::to_string(value(i));
        text += "]";
    };
    for (const Sample& sample : samples) {
        text += &sample == samples.data() ? "[" : ", [";
        for (uint64_t value : {sample.warp / warps_of_block, sample.warp % warps_of_block, uint64_t(sample.region),
                               uint64_t(sample.first)})
            text += std::to_string(value) + ", ";
        list(sample.lanes, [&](uint32_t i) { return sample.lane[i]; });
        text += ", ";
        list(sample.lanes, [&](uint32_t i) { return sample.offset[i]; });
        text += "]";
    }
}

}  // namespace lens
}  // namespace kernels
