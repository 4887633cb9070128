// Asynchronous copies. They happen when they are waited for, so that a wait that is missing shows.
#pragma once

namespace kernels {

inline void start_copy(void* to, const void* from, size_t bytes, size_t zeros = 0) {
    if (bytes) self.runtime->services->copy(to, from, uint32_t(bytes), uint32_t(zeros));
}
inline void commit_copies(const void* owner = nullptr) { self.runtime->services->commit(owner); }
inline void land_copies(size_t keep = 0, const void* owner = nullptr) {
    self.runtime->services->land(owner, uint32_t(keep));
}

// The calling thread's part of a group's copy: every size()-th piece of 16 bytes.
template <class Group>
inline void start_copy_of(const Group& group, void* to, const void* from, size_t bytes) {
    const size_t step = size_t(group.size()) * 16;
    for (size_t at = size_t(group.thread_rank()) * 16; at < bytes; at += step)
        start_copy((char*)to + at, (const char*)from + at, bytes - at < 16 ? bytes - at : 16);
}

// Keeps the running thread until `ready()` holds, which other threads of the block bring about.
template <class Ready>
inline void wait_until(const Ready& ready, const char* name, Site site) {
    self.runtime->services->wait_until([](const void* state) { return (*static_cast<const Ready*>(state))(); }, &ready,
                                       name, site);
}

}  // namespace kernels

namespace cuda {

// A number of bytes that is a multiple of `alignment`, as the pointers of the copy are.
template <size_t alignment>
struct aligned_size_t {
    static constexpr size_t align = alignment;
    size_t value;
    explicit constexpr aligned_size_t(size_t value) : value(value) {}
    constexpr operator size_t() const { return value; }
};

}  // namespace cuda
