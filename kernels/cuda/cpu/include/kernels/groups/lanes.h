// Groups within a warp: what tiles of up to 32 threads and coalesced groups have in common, and coalesced_group. A rank is
// a position among the group's lanes.
#pragma once

namespace cooperative_groups {

class coalesced_group : public thread_group {
   public:
    unsigned num_threads() const { return unsigned(__builtin_popcount(mask)); }
    unsigned size() const { return num_threads(); }
    unsigned thread_rank() const { return rank_of(kernels::own_lane()); }
    unsigned meta_group_rank() const { return meta_rank; }
    unsigned meta_group_size() const { return meta_size; }
    void sync(KERNELS_SITE) const { kernels::collective(kernels::Collective::sync, mask, 0, file, line, "sync"); }

    template <class T>
    T shfl(const T& value, int rank, KERNELS_SITE) const {
        return from(value, unsigned(rank) % num_threads(), {file, line, "shfl"});
    }
    template <class T>
    T shfl_up(const T& value, unsigned delta, KERNELS_SITE) const {
        const unsigned rank = thread_rank();
        return from(value, delta > rank ? rank : rank - delta, {file, line, "shfl_up"});
    }
    template <class T>
    T shfl_down(const T& value, unsigned delta, KERNELS_SITE) const {
        const unsigned rank = thread_rank();
        return from(value, rank + delta < num_threads() ? rank + delta : rank, {file, line, "shfl_down"});
    }

    int any(int predicate, KERNELS_SITE) const {
        return int(vote(kernels::Collective::any, predicate != 0, {file, line, "any"}));
    }
    int all(int predicate, KERNELS_SITE) const {
        return int(vote(kernels::Collective::all, predicate != 0, {file, line, "all"}));
    }
    unsigned ballot(int predicate, KERNELS_SITE) const {
        return packed(vote(kernels::Collective::ballot, predicate != 0, {file, line, "ballot"}));
    }
    template <class T>
    unsigned match_any(T value, KERNELS_SITE) const {
        return packed(vote(kernels::Collective::match_any, kernels::match_bits(value), {file, line, "match_any"}));
    }
    template <class T>
    unsigned match_all(T value, int& equal, KERNELS_SITE) const {
        const uint64_t found = vote(kernels::Collective::match_all, kernels::match_bits(value), {file, line, "match_all"});
        equal = found != 0;
        return packed(found);
    }

    // For the headers: barriers that a reduction or scan is made of, and who takes part.
    void meet(kernels::Site site) const { kernels::collective(kernels::Collective::meet, mask, 0, site); }
    bool complete() const { return !(mask & kernels::finished_lanes(kernels::own_warp())); }
    unsigned member(unsigned rank) const { return kernels::own_warp() * 32 + lane_of(rank); }
    unsigned lane_mask() const { return mask; }
    coalesced_group part(unsigned lanes, unsigned rank, unsigned parts) const { return {lanes, rank, parts}; }

   protected:
    coalesced_group(unsigned mask, unsigned meta_rank, unsigned meta_size)
        : thread_group(thread_group::lanes, mask), meta_rank(meta_rank), meta_size(meta_size) {}
    friend coalesced_group coalesced_threads(int, const char*);

   private:
    unsigned rank_of(unsigned lane) const { return unsigned(__builtin_popcount(mask & ((1u << lane) - 1))); }
    unsigned lane_of(unsigned rank) const {
        const unsigned first = unsigned(__builtin_ctz(mask)), run = mask >> first;
        if (!(run & (run + 1))) return first + rank;  // neighbours, as in a tile
        unsigned rest = mask;
        for (; rank; --rank) rest &= rest - 1;
        return unsigned(__builtin_ctz(rest));
    }
    unsigned packed(uint64_t found) const {
        if (mask == 0xffffffffu) return unsigned(found);
        unsigned result = 0, rank = 0;
        for (unsigned rest = mask; rest; rest &= rest - 1, ++rank)
            result |= unsigned(found >> __builtin_ctz(rest) & 1) << rank;
        return result;
    }
    uint64_t vote(kernels::Collective kind, uint64_t value, kernels::Site site) const {
        return kernels::collective(kind, mask, value, site);
    }
    template <class T>
    T from(const T& value, unsigned rank, kernels::Site site) const {
        return kernels::moved(kernels::Collective::shuffle, mask, value, lane_of(rank), 32, site);
    }

    unsigned meta_rank, meta_size;
};

// The threads of the warp that make this call together.
inline coalesced_group coalesced_threads(KERNELS_SITE) {
    const auto lanes = kernels::collective(kernels::Collective::active, 0xffffffffu, 0, file, line, "coalesced_threads");
    return {unsigned(lanes), 0, 1};
}

}  // namespace cooperative_groups
