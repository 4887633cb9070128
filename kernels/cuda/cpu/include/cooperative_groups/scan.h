// cooperative_groups::inclusive_scan and exclusive_scan, for tiles and coalesced groups (CUDA C++ Programming Guide,
// "Cooperative Groups").
#pragma once
#include <cooperative_groups.h>

#include "kernels/groups/functors.h"

namespace cooperative_groups {

template <class Group, class Value, class Operation>
inline auto inclusive_scan(const Group& group, Value&& value, Operation&& operation, KERNELS_SITE) {
    static_assert(!std::is_same<Group, thread_block>::value && !std::is_same<Group, thread_group>::value,
                  "a scan takes a tile or a coalesced group");
    using T = std::remove_cv_t<std::remove_reference_t<Value>>;
    auto running = [&](auto slots, unsigned n) {
        for (unsigned rank = 1; rank < n; ++rank)
            slots(rank).result = operation(slots(rank - 1).result, slots(rank).value);
    };
    return kernels::together(group, T(value), running, {file, line, "inclusive_scan"});
}
template <class Group, class Value>
inline auto inclusive_scan(const Group& group, Value&& value, KERNELS_SITE) {
    return inclusive_scan(group, value, plus<>(), line, file);
}

// The first thread receives T().
template <class Group, class Value, class Operation>
inline auto exclusive_scan(const Group& group, Value&& value, Operation&& operation, KERNELS_SITE) {
    static_assert(!std::is_same<Group, thread_block>::value && !std::is_same<Group, thread_group>::value,
                  "a scan takes a tile or a coalesced group");
    using T = std::remove_cv_t<std::remove_reference_t<Value>>;
    auto running = [&](auto slots, unsigned n) {
        slots(0).result = T();
        for (unsigned rank = 1; rank < n; ++rank)
            slots(rank).result = rank > 1 ? operation(slots(rank - 1).result, slots(rank - 1).value) : slots(0).value;
    };
    return kernels::together(group, T(value), running, {file, line, "exclusive_scan"});
}
template <class Group, class Value>
inline auto exclusive_scan(const Group& group, Value&& value, KERNELS_SITE) {
    return exclusive_scan(group, value, plus<>(), line, file);
}

}  // namespace cooperative_groups
