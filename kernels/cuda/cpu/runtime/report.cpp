// The words of errors: what each thread of a block that cannot go on is waiting for.
#include <algorithm>

#include "block.h"

namespace kernels {

static std::string triple(uint3 index) {
    return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " + std::to_string(index.z) + ")";
}

// "__syncthreads on line 3 of k.cu"; without a line where none is known.
std::string describe(Site site) {
    const std::string call = site.call ? site.call : "a call";
    return site.line ? call + " on line " + std::to_string(site.line) + " of " + site.file : call;
}

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

std::string Block::block_name() const {
    const uint32_t* grid = launch->settings.grid;
    return "block " + triple({uint32_t(number % grid[0]), uint32_t(number / grid[0] % grid[1]),
                              uint32_t(number / grid[0] / grid[1])});
}

std::string Block::thread_name(uint32_t thread) const {
    const uint32_t* block = launch->settings.block;
    return block_name() + ", thread " +
           triple({thread % block[0], thread / block[0] % block[1], thread / block[0] / block[1]});
}

std::string Block::place() const {
    for (uint32_t number = 0; number < thread->count; ++number)
        if (waiting[number].where != Waiting::nowhere) return describe(*waiting[number].site) + " in " + thread_name(number);
    return block_name();
}

static std::string counted(uint64_t count, const char* noun) {
    return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string Block::explain() const {
    struct Place {
        Waiting::Where where;
        Site site;
        uint32_t count;
    };
    std::vector<Place> places;
    uint32_t finished = 0, at_barriers = 0, polling = 0;
    for (uint32_t number = 0; number < thread->count; ++number) {
        finished += thread->finished[number / warp_size] >> number % warp_size & 1;
        const Waiting& one = waiting[number];
        if (one.where == Waiting::nowhere) continue;
        at_barriers += one.where == Waiting::at_barrier;
        polling += one.where == Waiting::polling;
        auto same = [&](const Place& place) {
            return place.where == one.where && describe(place.site) == describe(*one.site);
        };
        auto place = std::find_if(places.begin(), places.end(), same);
        if (place == places.end())
            places.push_back({one.where, *one.site, 1});
        else
            ++place->count;
    }
    const bool at_grid = state == at_grid_barrier;

    std::string text = at_grid       ? "a barrier that not every block of the grid reaches, in "
                       : polling     ? "a wait without end, in "
                       : at_barriers ? "a barrier that not every thread reaches, in "
                                     : "a deadlock, in ";
    text += block_name() + " of " + counted(thread->count, "thread") + ": ";
    for (const Place& place : places) {
        const bool polls = place.where == Waiting::polling;
        text += counted(place.count, "thread") + (polls ? " read" : " wait") + (place.count == 1 ? "s" : "") +
                (polls ? " memory that stays as it is, in " : " in ") + describe(place.site) + "; ";
    }
    text += finished ? counted(finished, "thread") + (finished == 1 ? " has finished." : " have finished.")
                     : "none has finished.";
    if (at_grid)
        return text + " So wait " + counted(launch->at_grid_barrier, "block") + ", and " +
               counted(launch->finished, "block") + " of " + std::to_string(launch->blocks) +
               " finished without. Every thread of every block must reach the same barrier of the grid";
    if (polling)
        return text + " Nothing else has happened for " + std::to_string(int(launch->settings.patience)) +
               " seconds, here or in another block: what they wait for never comes, or only after they have ended";
    if (at_barriers && barrier_kind == Barrier::grid)
        return text + " Every thread of every block must reach the same barrier of the grid";
    if (at_barriers && finished && finished + at_barriers == thread->count && !barriers_differ)
        return text + " In a condition a barrier is allowed only if all threads of the block that are left come to it. "
                      "Hardware from sm_70 on waits only for the threads that have not returned and lets this pass; older "
                      "hardware may wait for ever. Guard the work, not the barrier: `if (i < n) { … }` before it and again "
                      "after it, so that every thread of a block reaches the same __syncthreads";
    for (uint32_t warp = 0; warp * warp_size < thread->count; ++warp)
        if (groups[warp].count) {
            const Group& group = groups[warp].group[0];
            return text + " In warp " + std::to_string(warp) + ", lanes " + describe_lanes(group.arrived) +
                   " wait in " + describe(*group.site) + ", whose mask names them and lanes " +
                   describe_lanes(group.mask & ~group.arrived) +
                   ". Every lane that a mask names must make the same call with the same mask" +
                   (at_barriers ? ", and every thread of a block must reach the same __syncthreads. Which of the two is in a "
                                  "condition, or in a loop of other lengths for other lanes? Take it out"
                                : "");
        }
    if (at_barriers)
        return text + " Every thread of a block must reach the same __syncthreads: take it out of the condition";
    for (const Tile& tile : tiles)
        return text + " Threads " + std::to_string(tile.first) + " to " + std::to_string(tile.first + tile.count - 1) +
               " are one tile, and " + std::to_string(tile.arrived) + " of them wait. Every thread of a tile must make "
               "the same call";
    return text;
}

}  // namespace kernels
