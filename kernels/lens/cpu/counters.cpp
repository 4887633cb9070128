#include "counters.h"

#include <algorithm>

#include "kernels/abi.h"
#include "recorder.h"

namespace kernels {
namespace lens {

void Counters::block_begins(const BlockInfo& block) {
    blocks.push_back({block.number, {}});
    if (!spare.empty()) blocks.back().streams = std::move(spare.back()), spare.pop_back();
    blocks.back().streams.resize(launch.threads);
}

Counters::Under& Counters::under_way(const BlockInfo& block) {
    if (blocks.back().number == block.number) return blocks.back();
    return *std::find_if(blocks.begin(), blocks.end(), [&](const Under& one) { return one.number == block.number; });
}

void Counters::ran(const BlockInfo& block, uint32_t thread, const Event* first, const Event* last) {
    Under& under = under_way(block);
    under.streams[thread].append(first, last);
    if (thread == 0)
        for (const Event* event = first; event != last; ++event) barriers += event->kind == Kind::barrier_arrived;
    // While it is in the processor's caches.
    const bool last_lane = thread % warp_size == warp_size - 1;
    if (last_lane && under.streams[thread].length() >= some_events)
        replay_warp(under, thread / warp_size, recorder.variables->finished[thread / warp_size]);
}

void Counters::block_ends(const BlockInfo& block) {
    Under& under = under_way(block);
    for (uint32_t warp = 0; warp * warp_size < launch.threads; ++warp) replay_warp(under, warp, ~0u);
    ++blocks_run;
    spare.push_back(std::move(under.streams));
    std::swap(under, blocks.back());
    blocks.pop_back();
}

bool Counters::full(const BlockInfo& block, uint32_t thread) {
    Under& under = under_way(block);
    if (under.streams[thread].length() < most_events) return false;
    const uint32_t warp = thread / warp_size;
    replay_warp(under, warp, recorder.variables->finished[warp]);
    return under.streams[thread].length() >= most_events;
}

void Counters::replay_warp(Under& under, uint32_t warp, uint32_t finished) {
    const uint32_t first = warp * warp_size;
    replayed = under.number * Samples::warps_of_block + warp;
    replay(&under.streams[first], std::min(warp_size, launch.threads - first), finished, *this);
}

void Counters::branch(uint32_t lanes) {
    ++steps;
    steps_of_lanes += lanes;
}

static uint64_t bit(const Region& region) { return uint64_t(1) << std::min(region.number, 63u); }

// A request is to one space; an instruction whose lanes name several makes as many requests.
void Counters::access(const Request& request) {
    branch(request.lanes);
    if (request.pc >= last_region.size()) last_region.resize(request.pc + 1);
    const Region*& last = last_region[request.pc];
    auto region_of = [&](uint64_t address) {
        if (last && address - last->zone_begin < last->zone_end - last->zone_begin) return last;
        const Region* region = launch.region(address);
        return region ? last = region : region;
    };
    const Region* region = region_of(request.address[0]);
    uint32_t same = 1;
    while (same < request.lanes && region_of(request.address[same]) == region) ++same;
    if (same == request.lanes) {
        if (region) count(request, region->space, bit(*region));
        return;
    }
    for (Space space : {Space::global, Space::shared, Space::constant}) {
        Request part = request;
        part.lanes = 0;
        uint64_t regions = 0;
        for (uint32_t i = 0; i < request.lanes; ++i) {
            const Region* its = region_of(request.address[i]);
            if (!its || its->space != space) continue;
            regions |= bit(*its);
            part.lane[part.lanes] = request.lane[i];
            part.address[part.lanes++] = request.address[i];
        }
        if (part.lanes) count(part, space, regions);
    }
}

void Counters::count(const Request& request, Space space, uint64_t regions) {
    Count& count = count_of(request, space);
    const uint64_t distinct = distinct_bytes(request);
    count.regions |= regions;
    ++count.requests;
    count.lanes += request.lanes;
    count.bytes += uint64_t(request.lanes) * request.size;
    if (count.samples.wants(replayed))
        if (const Region* region = launch.region(request.address[0])) count.samples.add(replayed, request, *region);
    if (space == Space::global) {
        count.sectors += request.kind == Kind::atomic ? atomic_sectors(request) : sectors(request);
        count.fewest_sectors += (distinct + 31) / 32;
    } else if (space == Space::shared) {
        count.wavefronts += wavefronts(request);
        count.fewest_wavefronts += (distinct + 127) / 128;
    }
}

Count& Counters::count_of(const Request& request, Space space) {
    if (request.pc >= place.size()) place.resize(request.pc + 1);
    for (uint32_t at = place[request.pc]; at; at = counts[at - 1].other) {
        Count& count = counts[at - 1];
        if (count.space == space && count.kind == request.kind && count.size == request.size) return count;
    }
    counts.push_back({request.pc, request.kind, space, uint8_t(request.size), 0, 0, 0, 0, 0, 0, 0, 0, place[request.pc], {}});
    place[request.pc] = uint32_t(counts.size());
    return counts.back();
}

std::string Counters::result() {
    // Of a launch that was stopped: what is left ran, though lanes may have been on their way to each other.
    for (Under& under : blocks)
        for (uint32_t warp = 0; warp * warp_size < launch.threads; ++warp) replay_warp(under, warp, ~0u);
    std::string text = "\"counts\": [";
    auto add = [&](const Count& count) {
        text += text.back() == '[' ? "[" : ", [";
        for (uint64_t value : {uint64_t(count.pc), uint64_t(count.kind), uint64_t(count.space), uint64_t(count.size),
                               count.regions, count.requests, count.lanes, count.bytes, count.sectors,
                               count.fewest_sectors, count.wavefronts})
            text += std::to_string(value) + ", ";
        text += std::to_string(count.fewest_wavefronts) + ", [";
        count.samples.write(text);
        text += "]]";
    };
    std::sort(counts.begin(), counts.end(), [](const Count& a, const Count& b) { return a.pc < b.pc; });
    for (const Count& count : counts) add(count);
    return text + "], \"barriers\": " + std::to_string(barriers) + ", \"blocks_run\": " + std::to_string(blocks_run) +
           ", \"steps\": " + std::to_string(steps) + ", \"steps_of_lanes\": " + std::to_string(steps_of_lanes);
}

}  // namespace lens
}  // namespace kernels
