// cooperative_groups::reduce, for tiles and coalesced groups (CUDA C++ Programming Guide, "Cooperative Groups").
#pragma once
#include <cooperative_groups.h>

#include "kernels/groups/functors.h"

namespace cooperative_groups {

// Halves meet as in the shuffles of a GPU, so that sums of floats round alike.
template <class Group, class Value, class Operation>
inline auto reduce(const Group& group, Value&& value, Operation&& operation, KERNELS_SITE) {
    static_assert(!std::is_same<Group, thread_block>::value && !std::is_same<Group, thread_group>::value,
                  "reduce takes a tile or a coalesced group");
    using T = std::remove_cv_t<std::remove_reference_t<Value>>;
    auto halves = [&](auto slots, unsigned n) {
        for (unsigned left = n; left > 1; left = (left + 1) / 2)
            for (unsigned half = (left + 1) / 2, rank = 0; rank + half < left; ++rank)
                slots(rank).result = operation(slots(rank).result, slots(rank + half).result);
        for (unsigned rank = 1; rank < n; ++rank) slots(rank).result = slots(0).result;
    };
    return kernels::together(group, T(value), halves, {file, line, "reduce"});
}

}  // namespace cooperative_groups
