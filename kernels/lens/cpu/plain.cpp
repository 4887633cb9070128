// Nearly all accesses are plain ones of memory that nobody is in the way of: they take a short way past the checks for races.
#include "races.h"

namespace kernels {
namespace lens {

// What `check` does, if nothing is wrong. False: nothing is done, and there may be.
template <bool write>
inline bool Races::as_expected(const Self& self, const Ground& ground, Shadow::Page& page, uint32_t index, const Record& mine) {
    auto gone = [&](const Record& one) {
        return one.clock() < ground.begun || self.knows.of(one.actor(), one.clock());
    };
    const Record* last = page.write ? &page.write[index] : nullptr;
    if (last && last->clock() >= ground.begun) {
        if (last->in_flight() || !self.knows.of(last->actor(), last->clock())) return false;
    } else if (ground.shared && !write) {
        return false;
    }
    if (write) {
        if (!last) return false;
        Record* const read = page.read ? &page.read[index] : nullptr;
        Record* const other = page.other ? &page.other[index] : nullptr;
        if ((read && !gone(*read)) || (other && !gone(*other))) return false;
        if (read) read->set_clock(0);
        if (other) other->set_clock(0);
        page.write[index] = mine;
        return true;
    }
    if (!page.read) return false;
    Record& read = page.read[index];
    if (gone(read)) {
        read = mine;
        return true;
    }
    if (!page.other) return false;
    Record& other = page.other[index];
    if (self.actor / 32 == read.actor() / 32 ? other.actor() == self.actor || other.clock() < ground.begun
                                             : other.actor() / 32 == read.actor() / 32 || gone(other))
        other = mine;
    return true;
}

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
        if (write ? !as_expected<true>(self, ground, page, index, mine) : !as_expected<false>(self, ground, page, index, mine))
            check({self, event, ground, values, write, false}, page, index, address);
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
    const Event event = first.of_another(address);
    const uint32_t* const values = team.values[i] + value;
    if (!plain(block.shadows.all[first.extra()], team.self[i], event, values)) access(block, team.self[i], event, values);
}

}  // namespace lens
}  // namespace kernels
