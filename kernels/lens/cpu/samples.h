// The first requests of an instruction, lane by lane: a picture can be drawn of them.
#pragma once
#include "events.h"
#include "request.h"

namespace kernels {
namespace lens {

class Samples {
   public:
    static constexpr uint32_t warps_of_block = 32;  // at most

    // `warp`: counted through all blocks. Kept are the first few by warp, and by time within a warp, in whatever order
    // blocks and warps run.
    bool wants(uint64_t warp) const { return warp < before; }
    void add(uint64_t warp, const Request&, const Region&);
    void write(std::string& text) const;  // as JSON, without the brackets around

   private:
    static constexpr size_t most = 8;
    struct Sample {
        uint64_t warp;
        uint32_t region, first;  // first: bytes from a boundary of the memory to the region's beginning
        uint32_t lanes;
        uint8_t lane[32];
        int64_t offset[32];  // from that boundary
    };
    std::vector<Sample> samples;
    uint64_t before = ~uint64_t(0);
};

}  // namespace lens
}  // namespace kernels
