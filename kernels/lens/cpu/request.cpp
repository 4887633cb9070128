#include "request.h"

#include <algorithm>

namespace kernels {
namespace lens {

static constexpr uint64_t sector_bytes = 32;

uint32_t sectors(const Request& request) {
    uint64_t touched[64];
    uint32_t count = 0;
    bool ascending = true;
    for (uint32_t i = 0; i < request.lanes; ++i) {
        const uint64_t first = request.address[i] / sector_bytes;
        const uint64_t last = (request.address[i] + request.size - 1) / sector_bytes;
        for (uint64_t sector = first; sector <= last; ++sector) {
            if (count && touched[count - 1] == sector) continue;
            ascending &= !count || touched[count - 1] < sector;
            touched[count++] = sector;
        }
    }
    if (ascending) return count;
    std::sort(touched, touched + count);
    return uint32_t(std::unique(touched, touched + count) - touched);
}

uint32_t atomic_sectors(const Request& request) {
    uint64_t words[32];
    std::copy(request.address, request.address + request.lanes, words);
    std::sort(words, words + request.lanes);
    uint32_t total = 0;
    for (uint32_t i = 0; i < request.lanes;) {
        const uint64_t sector = words[i] / sector_bytes;
        uint32_t turns = 0;
        while (i < request.lanes && words[i] / sector_bytes == sector) {
            const uint32_t first = i;
            while (i < request.lanes && words[i] == words[first]) ++i;
            turns = std::max(turns, i - first);
        }
        total += turns;
    }
    return total;
}

uint32_t distinct_bytes(const Request& request) {
    uint64_t begins[32];
    bool ascending = true;
    for (uint32_t i = 0; i < request.lanes; ++i) {
        begins[i] = request.address[i];
        ascending &= !i || begins[i - 1] <= begins[i];
    }
    if (!ascending) std::sort(begins, begins + request.lanes);
    uint64_t end = 0, total = 0;
    for (uint32_t i = 0; i < request.lanes; ++i) {
        const uint64_t stop = begins[i] + request.size;
        if (stop <= end) continue;
        total += stop - std::max(begins[i], end);
        end = stop;
    }
    return uint32_t(total);
}

uint32_t wavefronts(const Request& request) {
    constexpr uint32_t banks = 32;
    constexpr uint64_t bytes = 4;
    const uint32_t lanes_in_a_pass = request.size <= bytes ? 32 : uint32_t(32 * bytes / request.size);
    uint32_t total = 0;
    for (uint32_t i = 0; i < request.lanes;) {
        const uint32_t pass = request.lane[i] / lanes_in_a_pass;
        uint64_t words[banks][32];
        uint32_t depth[banks] = {}, most = 0;
        for (; i < request.lanes && request.lane[i] / lanes_in_a_pass == pass; ++i) {
            const uint64_t last = (request.address[i] + request.size - 1) / bytes;
            for (uint64_t word = request.address[i] / bytes; word <= last; ++word) {
                uint64_t* those = words[word % banks];
                uint32_t& count = depth[word % banks];
                if (std::find(those, those + count, word) != those + count) continue;
                those[count++] = word;
                most = std::max(most, count);
            }
        }
        total += most;
    }
    return total;
}

}  // namespace lens
}  // namespace kernels
