// thread_group, which any group can be passed as, and thread_block.
#pragma once

namespace kernels {

// Moves a value of up to 32 bytes between lanes, 8 bytes at a time.
template <class T>
inline T moved(Collective kind, uint32_t mask, const T& value, uint32_t argument, uint32_t width, Site site) {
    static_assert(std::is_trivially_copyable<T>::value && sizeof(T) <= 32,
                  "a group's shuffle moves plain values of at most 32 bytes");
    uint64_t words[(sizeof(T) + 7) / 8] = {};
    memcpy(words, &value, sizeof(T));
    for (uint64_t& word : words) word = collective(kind, mask, word, argument, int(width), site.file, site.line, site.call);
    T result = value;
    memcpy((void*)&result, words, sizeof(T));
    return result;
}

// The lanes of a warp that its threads can no longer be.
inline uint32_t finished_lanes(uint32_t warp) {
    const uint32_t begun = warp * warp_size, lanes = self.count > begun ? self.count - begun : 0;
    return self.finished[warp] | (lanes < warp_size ? ~0u << lanes : 0u);
}

inline uint32_t own_lane() { return self.running % warp_size; }
inline uint32_t own_warp() { return self.running / warp_size; }

// What every thread of a group receives when each offers a value: `combine(slots, n)` is run by the group's first thread,
// with slots(rank).value to read and slots(rank).result to write.
template <class T>
struct Slot {
    T value, result;
};
template <class Group, class T, class Combine>
inline T together(const Group& group, const T& value, const Combine& combine, Site site) {
    Slot<T> slot = {value, value};
    self.offers[self.running] = &slot;
    group.meet(site);
    if (!group.complete()) fail(site.call, " in a group with threads that have finished", site);
    if (group.thread_rank() == 0)
        combine([&](uint32_t rank) -> Slot<T>& { return *static_cast<Slot<T>*>(self.offers[group.member(rank)]); },
                uint32_t(group.num_threads()));
    group.meet(site);
    return slot.result;
}

}  // namespace kernels

namespace cooperative_groups {

// Whatever group it was made from: a block, the grid, or lanes of a warp.
class thread_group {
   public:
    void sync(KERNELS_SITE) const {
        const kernels::Site site = {file, line, "sync"};
        if (kind == lanes)
            kernels::collective(kernels::Collective::sync, mask, 0, site);
        else if (kind == tile)
            kernels::self.runtime->tile(first, count, site);
        else
            kernels::barrier(kind == grid ? kernels::Barrier::grid : kernels::Barrier::sync, 0, site.file, site.line, site.call);
    }
    unsigned long long num_threads() const {
        const unsigned long long block = kernels::self.count;
        if (kind == lanes) return unsigned(__builtin_popcount(mask));
        return kind == tile ? count : kind == grid ? block * gridDim.x * gridDim.y * gridDim.z : block;
    }
    unsigned long long size() const { return num_threads(); }
    unsigned long long thread_rank() const {
        const unsigned long long block = kernels::self.count;
        if (kind == lanes) return unsigned(__builtin_popcount(mask & ((1u << kernels::own_lane()) - 1)));
        const unsigned long long blocks = blockIdx.x + gridDim.x * (blockIdx.y + (unsigned long long)gridDim.y * blockIdx.z);
        return kind == tile ? kernels::self.running - first : kernels::self.running + (kind == grid ? blocks * block : 0);
    }

   protected:
    enum Kind : unsigned { block, grid, lanes, tile };
    explicit thread_group(Kind kind, unsigned mask = 0, unsigned first = 0, unsigned count = 0)
        : kind(kind), mask(mask), first(first), count(count) {}
    friend thread_group tiled_partition(const thread_group&, unsigned);

    Kind kind;
    unsigned mask;          // of lanes
    unsigned first, count;  // of a tile: its threads by their number in the block
};

class thread_block : public thread_group {
   public:
    static void sync(KERNELS_SITE) {
        kernels::barrier(kernels::Barrier::sync, 0, file, line, "thread_block::sync");
    }
    static unsigned thread_rank() { return kernels::self.running; }
    static unsigned num_threads() { return kernels::self.count; }
    static unsigned size() { return kernels::self.count; }
    static dim3 group_index() { return blockIdx; }
    static dim3 thread_index() { return threadIdx; }
    static dim3 dim_threads() { return blockDim; }
    static dim3 group_dim() { return blockDim; }

   private:
    thread_block() : thread_group(thread_group::block) {}
    friend thread_block this_thread_block();
};

inline thread_block this_thread_block() { return {}; }

// Memory that tiles of more than a warp need on older GPUs.
template <unsigned most_threads = 1024>
struct block_tile_memory {};
template <unsigned most_threads>
inline thread_block this_thread_block(block_tile_memory<most_threads>&) { return this_thread_block(); }

template <class Group>
inline void sync(const Group& group, KERNELS_SITE) { group.sync(line, file); }
template <class Group>
inline auto thread_rank(const Group& group) { return group.thread_rank(); }
template <class Group>
inline auto group_size(const Group& group) { return group.num_threads(); }

}  // namespace cooperative_groups
