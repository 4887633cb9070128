// One memory instruction of a warp, and what the memory system makes of it.
#pragma once
#include "events.h"

namespace kernels {
namespace lens {

// A request is an instruction with at least one active lane. Its lanes' addresses, in the order of the lanes.
struct Request {
    uint32_t pc;
    Kind kind;
    uint32_t size;  // bytes of a lane
    uint32_t lanes;
    uint16_t region;  // as an event has it: that of the first lane …
    bool one_region;  // … and of all others
    uint8_t lane[32];  // in ascending order
    uint64_t address[32];

    void begin(const Event& first) {
        pc = first.pc(), kind = first.kind(), size = first.size(), region = first.extra();
        one_region = true;
    }
};

// Sectors are aligned pieces of 32 bytes: what global memory moves.
uint32_t sectors(const Request&);
// Lanes of an atomic that name the same word take turns, and each turn asks for its sectors again.
uint32_t atomic_sectors(const Request&);
// Different bytes that the lanes name: a broadcast names few.
uint32_t distinct_bytes(const Request&);
// Passes over the 32 banks, 4 bytes wide, of shared memory. Lanes that name the same word share it. Accesses of 8 bytes are
// made by half warps, of 16 bytes by quarter warps.
uint32_t wavefronts(const Request&);

}  // namespace lens
}  // namespace kernels
