#include "stretches.h"

#include <string.h>

namespace kernels {
namespace lens {

// Before another thread may write there.
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

void Stretches::add(uint32_t thread, Event* last, const Event* const* writes, size_t written, uint32_t gone,
                    const LaunchInfo& launch) {
    of[count++] = {thread, next, last, next_value};
    present |= 1u << thread % 32;
    finished = gone;
    next = last;
    for (size_t i = 0; i < written; ++i) next_value = add_value(next_value, *writes[i], launch);
}

void Stretches::clear() {
    present = count = barrier = 0;
    ordering = false;
    next = events;
    next_value = values;
}

}  // namespace lens
}  // namespace kernels
