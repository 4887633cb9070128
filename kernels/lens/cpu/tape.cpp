#include "tape.h"

#include <string.h>

namespace kernels {
namespace lens {

static uint32_t* add_value(uint32_t* to, const Event& write, const LaunchInfo& launch) {
    const Region* region = launch.region(write);
    const uint32_t size = write.size();
    const bool there = region && write.address >= region->begin && write.address + size <= region->end;
    if (there && size == 4) {
        *to = *reinterpret_cast<const uint32_t*>(write.address);
        return to + 1;
    }
    memset(to, 0, 4 * words_of(write));
    if (there) memcpy(to, reinterpret_cast<const void*>(write.address), size);
    return to + words_of(write);
}

Stretches& Tape::begin(const BlockInfo& block, uint32_t warp) {
    Stretches& those = stretches[used++];
    those.block = block;
    those.warp = warp;
    those.count = those.present = those.finished = those.barrier = 0;
    those.ordering = false;
    return those;
}

// Before another thread may write there.
void Tape::add_values(const Event* const* writes, size_t written, const LaunchInfo& launch) {
    for (size_t i = 0; i < written; ++i) next_value = add_value(next_value, *writes[i], launch);
}

void Tape::clear() {
    entries.clear();
    next = events;
    next_value = values;
    used = 0;
}

}  // namespace lens
}  // namespace kernels
