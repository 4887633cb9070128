// What is wrong with a kernel, gathered: the same from many threads is one finding with a count.
#pragma once
#include <map>
#include <set>
#include <tuple>

#include "events.h"

namespace kernels {
namespace lens {

// In the order in which kernels/lens/cuda/findings.py numbers them.
enum class Wrong : uint32_t { race, uninitialised, in_flight, out_of_bounds, index, misaligned, wild };

// One side of a finding: who did what, and where in the code.
struct Party {
    uint64_t block = 0;
    uint32_t thread = 0, pc = 0;
    Kind kind = Kind::read;
};

struct Finding {
    Party first, second;  // in the order in which they ran; but for races and copies in flight, only `second`
    const Region* region = nullptr;
    uint64_t address = 0;
    uint32_t size = 0;
    int64_t index = 0;    // Wrong::index: the index, of so many elements if that is known
    uint32_t length = 0;
};

class Findings {
   public:
    std::string result();  // members of the result's JSON object: `"findings": [ … ]`
    void add(Wrong, const Finding&);
    void add(const Findings& others) { rows.insert(others.rows.begin(), others.rows.end()); }  // of other kinds
    // A plain read before an atomic of the same thread there that looks again, such as the guess of a loop of atomicCAS: it
    // may be out of date, and is no race with the atomics of others.
    void forgive_read_before_atomic(uint32_t pc) { guesses.insert(pc); }

   private:
    // Pcs of both parties, number of the region, and how far apart the parties are.
    using Key = std::tuple<Wrong, uint32_t, uint32_t, int64_t, uint32_t>;
    struct Row {
        Finding example;
        int64_t offset;  // of the address from the region's begin, which another block may have elsewhere
        uint64_t count;
    };
    static constexpr size_t most = 1000;
    bool forgiven(const Finding&) const;

    std::map<Key, Row> rows;
    std::set<uint32_t> guesses;
};

}  // namespace lens
}  // namespace kernels
