// cooperative_groups::memcpy_async (CUDA C++ Programming Guide, "Cooperative Groups", data transfer).
#pragma once
#include <cooperative_groups.h>

#include "kernels/async_copy.h"

namespace cooperative_groups {

template <class Group, class T, class Size>
inline void memcpy_async(const Group& group, T* to, const T* from, const Size& bytes) {
    kernels::start_copy_of(group, (void*)to, (const void*)from, size_t(bytes));
    kernels::commit_copies();
}
// The smaller of two numbers of elements.
template <class Group, class T, class ToCount, class FromCount>
inline void memcpy_async(const Group& group, T* to, const ToCount& to_count, const T* from, const FromCount& from_count) {
    const size_t count = size_t(to_count) < size_t(from_count) ? size_t(to_count) : size_t(from_count);
    kernels::start_copy_of(group, (void*)to, (const void*)from, count * sizeof(T));
    kernels::commit_copies();
}
template <class Group>
inline void wait(const Group& group) {
    kernels::land_copies();
    group.sync();
}
template <unsigned keep, class Group>
inline void wait_prior(const Group& group) {
    kernels::land_copies(keep);
    group.sync();
}

}  // namespace cooperative_groups
