#include "counters.h"

#include <algorithm>

#include "kernels/abi.h"

namespace kernels {
namespace lens {

void Counters::block_begins(const BlockInfo& block) {
    busiest.resize(launch.regions.size() + 1);  // and dynamic shared memory
    blocks.push_back({block.number, {}, std::vector<uint64_t>(busiest.size() * Samples::warps_of_block), false});
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
    under.behind = true;
}

void Counters::replay(const Stretches& those) {
    replay_warp(under_way(those.block), those.warp, those.finished);
}

void Counters::block_ends(const BlockInfo& block) {
    Under& under = under_way(block);
    for (uint32_t warp = 0; under.behind && warp * warp_size < launch.threads; ++warp) replay_warp(under, warp, ~0u);
    ++blocks_run;
    for (size_t i = 0; i < under.requests.size(); ++i) {
        uint64_t& most = busiest[i / Samples::warps_of_block];
        most = std::max(most, under.requests[i]);
    }
    spare.push_back(std::move(under.streams));
    std::swap(under, blocks.back());
    blocks.pop_back();
}

bool Counters::begin_together(const Stretches& those) {
    Under& under = under_way(those.block);
    const uint32_t first = those.warp * warp_size, last = std::min(first + warp_size, launch.threads);
    for (uint32_t thread = first; under.behind && thread < last; ++thread)
        if (under.streams[thread].length()) return false;
    turn_to(under, those.warp);
    return true;
}

bool Counters::many_behind(const BlockInfo& block, uint32_t thread, uint32_t finished) {
    Under& under = under_way(block);
    if (under.streams[thread].length() < many) return false;
    replay_warp(under, thread / warp_size, finished);
    return under.streams[thread].length() >= many;
}

size_t Counters::behind() const {
    size_t events = 0;
    for (const Under& under : blocks)
        for (const Stream& stream : under.streams) events += stream.length();
    return events;
}

void Counters::replay_warp(Under& under, uint32_t warp, uint32_t finished) {
    const uint32_t first = warp * warp_size;
    turn_to(under, warp);
    lens::replay(&under.streams[first], std::min(warp_size, launch.threads - first), finished, *this);
}

void Counters::turn_to(Under& under, uint32_t warp) {
    replayed = under.number * Samples::warps_of_block + warp;
    requests = &under.requests[warp];
}

void Counters::branch(uint32_t lanes) {
    ++steps;
    steps_of_lanes += lanes;
}

void Counters::collective(uint16_t kind) {
    shuffles += Collective(kind) >= Collective::shuffle && Collective(kind) <= Collective::shuffle_xor;
}

static uint64_t bit(const Region& region) { return uint64_t(1) << std::min(region.number, 63u); }

// A request is to one space; an instruction whose lanes name several makes as many requests.
void Counters::access(const Request& request) {
    branch(request.lanes);
    if (request.one_region) {
        if (request.region == Event::no_region) return;
        const Region& region = *launch.numbered[request.region];
        return count(request, region, bit(region));
    }
    for (Space space : {Space::global, Space::shared, Space::constant}) {
        Request part = request;
        part.lanes = 0;
        uint64_t regions = 0;
        const Region* first = nullptr;
        for (uint32_t i = 0; i < request.lanes; ++i) {
            const Region* its = launch.region(request.address[i]);
            if (!its || its->space != space) continue;
            if (!first) first = its;
            regions |= bit(*its);
            part.lane[part.lanes] = request.lane[i];
            part.address[part.lanes++] = request.address[i];
        }
        if (first) count(part, *first, regions);
    }
}

void Counters::count(const Request& request, const Region& first, uint64_t regions) {
    const Space space = first.space;
    ++requests[first.number * Samples::warps_of_block];
    Count& count = count_of(request, space);
    if (!count.shape.is_of(request)) count.shape.take(request);
    count.regions |= regions;
    ++count.requests;
    count.lanes += request.lanes;
    count.bytes += uint64_t(request.lanes) * request.size;
    if (count.samples.wants(replayed)) count.samples.add(replayed, request, first);
    if (space == Space::global) {
        count.sectors += count.shape.units(request, space);
        count.fewest_sectors += (count.shape.distinct + 31) / 32;
    } else if (space == Space::shared) {
        count.wavefronts += count.shape.units(request, space);
        count.fewest_wavefronts += (count.shape.distinct + 127) / 128;
    }
}

Count& Counters::count_of(const Request& request, Space space) {
    if (request.pc >= place.size()) place.resize(request.pc + 1);
    for (uint32_t at = place[request.pc]; at; at = counts[at - 1].other) {
        Count& count = counts[at - 1];
        if (count.space == space && count.kind == request.kind && count.size == request.size) return count;
    }
    counts.push_back({request.pc, request.kind, space, uint8_t(request.size), 0, 0, 0, 0, 0, 0, 0, 0, place[request.pc], {}, {}});
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
    text += "], \"busiest\": [";
    for (uint64_t most : busiest) text += (text.back() == '[' ? "" : ", ") + std::to_string(most);
    return text + "], \"shuffles\": " + std::to_string(shuffles) +
           ", \"blocks_run\": " + std::to_string(blocks_run) +
           ", \"steps\": " + std::to_string(steps) + ", \"steps_of_lanes\": " + std::to_string(steps_of_lanes);
}

}  // namespace lens
}  // namespace kernels
