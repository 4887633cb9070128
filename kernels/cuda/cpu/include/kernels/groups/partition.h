// Groups made while the kernel runs: tiles of a size that is no constant, and lanes with the same label.
#pragma once

namespace cooperative_groups {

// The lanes of `parent` whose ranks divided by `size` are the caller's.
inline coalesced_group tiled_partition(const coalesced_group& parent, unsigned size) {
    const unsigned tile = parent.thread_rank() / size;
    unsigned lanes = 0, rank = 0;
    for (unsigned rest = parent.lane_mask(); rest; rest &= rest - 1, ++rank)
        if (rank / size == tile) lanes |= rest & -rest;
    return parent.part(lanes, tile, (parent.num_threads() + size - 1) / size);
}

// Of a block, of a group of lanes, or of a tile: the groups that lie within a warp.
inline thread_group tiled_partition(const thread_group& parent, unsigned size) {
    const unsigned rank = unsigned(parent.thread_rank()) / size * size;
    if (size >= parent.num_threads()) return parent;
    if (parent.kind != thread_group::lanes) {
        const unsigned lane = kernels::own_lane() & ~(size - 1), all = size >= 32 ? ~0u : (1u << size) - 1;
        return thread_group(thread_group::lanes, all << lane);
    }
    unsigned lanes = 0, at = 0;
    for (unsigned rest = parent.mask; rest; rest &= rest - 1, ++at)
        if (at >= rank && at < rank + size) lanes |= rest & -rest;
    return thread_group(thread_group::lanes, lanes);
}

// The threads of the group with the caller's label, an integer or a pointer.
template <class Label>
inline coalesced_group labeled_partition(const coalesced_group& parent, Label label, KERNELS_SITE) {
    static_assert(std::is_integral<Label>::value || std::is_pointer<Label>::value, "a label is an integer or a pointer");
    const kernels::Site site = {file, line, "labeled_partition"};
    uint64_t bits = (uint64_t)label;
    const unsigned all = parent.lane_mask();
    const unsigned own = unsigned(kernels::collective(kernels::Collective::match_any, all, bits, site));
    const unsigned first = unsigned(__builtin_ctz(own));
    const unsigned leads = first == kernels::own_lane();
    const unsigned leaders = unsigned(kernels::collective(kernels::Collective::ballot, all, leads, site));
    return parent.part(own, unsigned(__builtin_popcount(leaders & ((1u << first) - 1))),
                       unsigned(__builtin_popcount(leaders)));
}

// The threads of the group with the caller's predicate.
inline coalesced_group binary_partition(const coalesced_group& parent, bool predicate, KERNELS_SITE) {
    const unsigned all = parent.lane_mask();
    const unsigned set = unsigned(
        kernels::collective(kernels::Collective::ballot, all, predicate, {file, line, "binary_partition"}));
    if (set == 0 || set == all) return parent.part(all, 0, 1);
    return parent.part(predicate ? set : all & ~set, predicate, 2);
}
template <>
inline coalesced_group labeled_partition(const coalesced_group& parent, bool label, int line, const char* file) {
    return binary_partition(parent, label, line, file);
}

// One thread of the group calls `function`.
template <class Group, class Function, class... Arguments>
inline void invoke_one(const Group& group, Function&& function, Arguments&&... arguments) {
    if (group.thread_rank() == 0) function(static_cast<Arguments&&>(arguments)...);
}
// And all of the group receive what it returns.
template <class Group, class Function, class... Arguments>
inline auto invoke_one_broadcast(const Group& group, Function&& function, Arguments&&... arguments) {
    std::remove_cv_t<std::remove_reference_t<decltype(function(static_cast<Arguments&&>(arguments)...))>> result;
    if (group.thread_rank() == 0) result = function(static_cast<Arguments&&>(arguments)...);
    return group.shfl(result, 0);
}

}  // namespace cooperative_groups
