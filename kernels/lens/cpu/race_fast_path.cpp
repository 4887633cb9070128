// Nearly all accesses are plain ones of memory that no one is in the way of: they take a short way past the checks for races.
#include "plain_access.h"
#include "races.h"

namespace kernels {
namespace lens {

// False: it is of another kind, and nothing is done.
inline bool Races::plain(const Ground& ground, const Self& self, const Event& event, const uint32_t* values) {
    const uint32_t size = event.size();
    if (event.address < ground.begin || event.address + size > ground.end) return false;
    uint32_t at;
    Shadow::Page& page = ground.shadow->page_of(event.address, at);
    const uint32_t shift = page.shift;
    if (at + size > Shadow::page_bytes || (at | size) & ((1u << shift) - 1)) return false;
    const bool write = event.kind() == Kind::write;
    for (uint32_t piece = 0; piece < size >> shift; ++piece) {
        const uint64_t address = event.address + (uint64_t(piece) << shift);
        const uint32_t index = (at >> shift) + piece;
        const uint32_t value = write ? value_of(event, values, address, shift) : 0;
        const Record mine(self.actor, self.clock, event.pc(), event.kind(), false, value);
        auto known = [&](const Record& one) { return self.knows.of(one.actor(), one.clock()); };
        const bool expected = write ? as_expected<true>(page, index, mine, ground.shared, ground.begun, known)
                                    : as_expected<false>(page, index, mine, ground.shared, ground.begun, known);
        if (!expected) check({self, event, ground, values, write, false}, page, index, address);
    }
    return true;
}

void Races::ran(const BlockInfo& info, uint32_t thread, const Event* first, const Event* last, const uint32_t* values) {
    Under& block = under_way(info);
    Self self;
    bool known = false;  // what it knows
    for (const Event* event = first; event != last; ++event) {
        if (event->kind() == Kind::branch) continue;
        if (is_access(event->kind())) {
            if (!known) self = Self(block, thread), known = true;
            const bool short_way = event->kind() <= Kind::write && !event->how() && event->extra() != Event::no_region &&
                                   plain(block.shadows.all[event->extra()], self, *event, values);
            if (!short_way) access(block, self, *event, values);
            if (event->kind() == Kind::write) values += words_of(*event);
        } else {
            synchronise(block, thread, *event);
            known = false;
        }
    }
}

void Races::access_of_lane(const Event& first, uint32_t i, uint64_t address, size_t value) {
    Under& block = *team.block;
    if (!team.known)
        for (uint32_t lane = 0; lane < team.count; ++lane) team.self[lane] = Self(block, team.self[lane].thread);
    team.known = true;
    const Event event = first.with_address(address);
    const uint32_t* const values = team.values[i] + value;
    if (!plain(block.shadows.all[first.extra()], team.self[i], event, values)) access(block, team.self[i], event, values);
}

}  // namespace lens
}  // namespace kernels
