// What every memory instruction of a kernel asks for, added up.
#pragma once
#include "events.h"
#include "replay.h"
#include "samples.h"
#include "shape.h"
#include "tape.h"

namespace kernels {
namespace lens {

// The requests of one instruction to one space.
struct Count {
    uint32_t pc;
    Kind kind;
    Space space;
    uint8_t size;
    uint64_t regions;  // bit i: the i-th of the launch's regions; beyond 63 the last
    uint64_t requests, lanes, bytes;
    uint64_t sectors, fewest_sectors;        // of global memory
    uint64_t wavefronts, fewest_wavefronts;  // of shared memory
    uint32_t other;                          // another count of the same instruction, plus 1
    Samples samples;
    Shape shape;  // of the last request
};

class Counters final : Steps {
   public:
    explicit Counters(const LaunchInfo& launch) : launch(launch) {}
    void block_begins(const BlockInfo&);
    // The next events of a thread, in order, and of others until `replay`. They stay where they are only during the call.
    void ran(const BlockInfo&, uint32_t thread, const Event* first, const Event* last);
    void replay(const Stretches&);
    void block_ends(const BlockInfo&);
    std::string result();  // members of the result's JSON object: `"counts": [ … ]` and others

    // The next events of lanes of a warp that take the same steps, step by step. False: others are still to be replayed.
    bool begin_together(const Stretches&);
    void branch(uint32_t lanes) override;
    void access(const Request&) override;
    void collective(uint16_t kind) override;

    // Events that are still to be replayed: those of lanes that went another way than others, which have not come so far.
    size_t behind() const;
    // Whether those of one thread are so many that it has to wait for others. finished: lanes of its warp.
    bool many_behind(const BlockInfo&, uint32_t thread, uint32_t finished);

   private:
    static constexpr size_t many = 2048;  // events of a thread
    void count(const Request&, const Region& first, uint64_t regions);
    Count& count_of(const Request&, Space);

    struct Under {
        uint64_t number;
        std::vector<Stream> streams;  // one a thread
        std::vector<uint64_t> requests;  // of each region, of each warp
        bool behind;                     // streams may have events
    };
    Under& under_way(const BlockInfo&);
    void replay_warp(Under&, uint32_t warp, uint32_t finished);
    void turn_to(Under&, uint32_t warp);

    const LaunchInfo& launch;
    std::vector<uint32_t> place;  // of a pc's count among `counts`, plus 1
    std::vector<Count> counts;
    std::vector<Under> blocks;  // more than one only when they wait for each other
    std::vector<std::vector<Stream>> spare;
    uint64_t blocks_run = 0;
    uint64_t shuffles = 0;                   // one of a warp counts once
    uint64_t steps = 0, steps_of_lanes = 0;
    uint64_t replayed = 0;  // the warp that is being replayed, counted through all blocks
    uint64_t* requests = nullptr;   // its requests to the first region
    std::vector<uint64_t> busiest;  // of each region: the requests of the warp that made the most
};

}  // namespace lens
}  // namespace kernels
