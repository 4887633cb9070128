// thread_block_tile<N>: N neighbouring threads of a block, a power of two. Up to 32 they are lanes of one warp.
#pragma once

namespace kernels {

template <unsigned N>
inline uint32_t tile_mask() {
    return (N >= 32 ? ~0u : (1u << (N % 32)) - 1) << (own_lane() & ~(N - 1));
}

}  // namespace kernels

namespace cooperative_groups {

template <unsigned N, class Parent = void>
class thread_block_tile;

// Within a warp.
template <unsigned N, bool in_a_warp = (N <= 32)>
class tile_of : public coalesced_group {
   public:
    static constexpr unsigned num_threads() { return N; }
    static constexpr unsigned size() { return N; }
    static unsigned thread_rank() { return kernels::own_lane() % N; }
    template <class T>
    T shfl_xor(const T& value, unsigned lane_mask, KERNELS_SITE) const {
        return kernels::moved(kernels::Collective::shuffle_xor, mask, value, lane_mask, N, {file, line, "shfl_xor"});
    }

   protected:
    tile_of(unsigned meta_rank, unsigned meta_size) : coalesced_group(kernels::tile_mask<N>(), meta_rank, meta_size) {}
};

// Of several warps.
template <unsigned N>
class tile_of<N, false> : public thread_group {
   public:
    static constexpr unsigned num_threads() { return N; }
    static constexpr unsigned size() { return N; }
    static unsigned thread_rank() { return kernels::self.running % N; }
    unsigned meta_group_rank() const { return meta_rank; }
    unsigned meta_group_size() const { return meta_size; }
    void sync(KERNELS_SITE) const { kernels::self.runtime->tile(first, N, {file, line, "sync"}); }

    template <class T>
    T shfl(const T& value, int rank, KERNELS_SITE) const {
        // All threads ask for the same rank: on a GPU only the warp of that thread waits for the others to come and read.
        struct Offer { const T* value; unsigned rank; } offer = {&value, unsigned(rank) % N};
        T result = value;
        kernels::self.offers[kernels::self.running] = &offer;
        meet({file, line, "shfl"});
        if (static_cast<Offer*>(kernels::self.offers[first])->rank != offer.rank)
            kernels::fail("shfl in a tile of more than 32 threads", ": its threads ask for different ranks, and a GPU hangs",
                          {file, line, "shfl"});
        memcpy((void*)&result, static_cast<Offer*>(kernels::self.offers[member(offer.rank)])->value, sizeof(T));
        meet({file, line, "shfl"});
        return result;
    }
    int any(int predicate, KERNELS_SITE) const { return votes(predicate, {file, line, "any"}) != 0; }
    int all(int predicate, KERNELS_SITE) const { return votes(predicate, {file, line, "all"}) == N; }

    void meet(kernels::Site site) const { kernels::self.runtime->tile(first, N, site); }
    bool complete() const { return first + N <= kernels::self.count; }
    unsigned member(unsigned rank) const { return first + rank; }

   protected:
    tile_of(unsigned meta_rank, unsigned meta_size)
        : thread_group(thread_group::tile, 0, kernels::self.running & ~(N - 1), N),
          meta_rank(meta_rank), meta_size(meta_size) {}

   private:
    unsigned votes(int predicate, kernels::Site site) const {
        auto count = [](auto slots, unsigned n) {
            unsigned total = 0;
            for (unsigned rank = 0; rank < n; ++rank) total += slots(rank).value;
            for (unsigned rank = 0; rank < n; ++rank) slots(rank).result = total;
        };
        return kernels::together(*this, unsigned(predicate != 0), count, site);
    }
    unsigned meta_rank, meta_size;
};

template <unsigned N>
class thread_block_tile<N, void> : public tile_of<N> {
    static_assert(N && !(N & (N - 1)) && N <= 1024, "the size of a tile is a power of two, at most 1024");

   protected:
    thread_block_tile(unsigned meta_rank, unsigned meta_size) : tile_of<N>(meta_rank, meta_size) {}
    friend thread_block_tile<1, void> this_thread();
};

template <unsigned N, class Parent>
class thread_block_tile : public thread_block_tile<N, void> {
   public:
    explicit thread_block_tile(const Parent& parent)
        : thread_block_tile<N, void>(unsigned(parent.thread_rank()) / N, (unsigned(parent.num_threads()) + N - 1) / N) {}
};

inline thread_block_tile<1, void> this_thread() { return {0, 1}; }

template <unsigned N, class Parent>
inline thread_block_tile<N, Parent> tiled_partition(const Parent& parent) {
    return thread_block_tile<N, Parent>(parent);
}

}  // namespace cooperative_groups
