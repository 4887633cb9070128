// The words of errors: what each thread of a block that cannot go on is waiting for.
#include <algorithm>
#include <vector>

#include "launch.h"
#include "worker.h"

namespace kernels {

static std::string triple(uint3 index) {
    return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " + std::to_string(index.z) + ")";
}

std::string describe(Collective kind) {
    switch (kind) {
        case Collective::sync: return "__syncwarp";
        case Collective::ballot: return "__ballot_sync";
        case Collective::any: return "__any_sync";
        case Collective::all: return "__all_sync";
        case Collective::shuffle: return "__shfl_sync";
        case Collective::shuffle_up: return "__shfl_up_sync";
        case Collective::shuffle_down: return "__shfl_down_sync";
        case Collective::shuffle_xor: return "__shfl_xor_sync";
    }
    return "";
}

std::string describe(Site site) { return " on line " + std::to_string(site.line) + " of " + site.file; }

// "5", "0-15" or "0-3,8-11".
std::string describe_lanes(uint32_t lanes) {
    std::string text;
    for (uint32_t lane = 0; lane < warp_size; ++lane) {
        if (!(lanes >> lane & 1)) continue;
        uint32_t last = lane;
        while (last + 1 < warp_size && lanes >> (last + 1) & 1) ++last;
        text += (text.empty() ? "" : ",") + std::to_string(lane);
        if (last > lane) text += "-" + std::to_string(last);
        lane = last;
    }
    return text.empty() ? "(no lanes)" : text;
}

std::string Worker::block_name() const { return "block " + triple(thread->block_index); }

std::string Worker::thread_name(uint32_t number) const {
    const dim3 block = launch->block;
    return block_name() + ", thread " +
           triple({number % block.x, number / block.x % block.y, number / block.x / block.y});
}

static std::string threads(uint32_t count) { return std::to_string(count) + (count == 1 ? " thread" : " threads"); }

std::string Worker::explain() const {
    struct Place {
        Waiting::Where where;
        Collective kind;
        Site site;
        uint32_t count;
    };
    std::vector<Place> places;
    uint32_t finished = 0, at_barriers = 0;
    for (uint32_t number = 0; number < thread->count; ++number) {
        finished += thread->finished[number / warp_size] >> number % warp_size & 1;
        const Waiting& one = waiting[number];
        if (one.where == Waiting::nowhere) continue;
        at_barriers += one.where == Waiting::at_barrier;
        auto same = [&](const Place& place) {
            return place.where == one.where && place.site.line == one.lane.site.line &&
                   std::string(place.site.file) == one.lane.site.file &&
                   (one.where == Waiting::at_barrier || place.kind == one.lane.kind);
        };
        auto place = std::find_if(places.begin(), places.end(), same);
        if (place == places.end())
            places.push_back({one.where, one.lane.kind, one.lane.site, 1});
        else
            ++place->count;
    }

    std::string text = at_barriers ? "a barrier that not every thread reaches, in " : "a deadlock, in ";
    text += block_name() + " of " + threads(thread->count) + ": ";
    for (const Place& place : places)
        text += threads(place.count) + (place.count == 1 ? " waits in " : " wait in ") +
                (place.where == Waiting::at_barrier ? "__syncthreads" : describe(place.kind)) + describe(place.site) +
                "; ";
    text += finished ? threads(finished) + (finished == 1 ? " has finished." : " have finished.") : "none has finished.";
    if (at_barriers)
        return text + " Every thread of a block must reach the same __syncthreads: take it out of the condition, or let "
                      "threads that have nothing to do stay until after it";

    for (uint32_t warp = 0; warp * warp_size < thread->count; ++warp)
        if (group_count[warp]) {
            const Group& group = groups[warp][0];
            return text + " In warp " + std::to_string(warp) + ", lanes " + describe_lanes(group.arrived) +
                   " wait in " + describe(group.kind) + ", whose mask names them and lanes " +
                   describe_lanes(group.mask & ~group.arrived) +
                   ". Every lane that a mask names must make the same call with the same mask";
        }
    return text;
}

}  // namespace kernels
