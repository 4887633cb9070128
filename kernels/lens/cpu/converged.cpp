// Lanes of a warp that take the same steps. Mostly they access consecutive words: then one record is kept for all of them.
#include "plain_access.h"
#include "races.h"

namespace kernels {
namespace lens {

void Races::begin_together(const BlockInfo& block, const Stretch* const* lanes, uint32_t count) {
    team.block = &under_way(block);
    team.count = count;
    team.present = 0;
    team.compared = team.known = false;
    for (uint32_t i = 0; i < count; ++i) {
        team.self[i].thread = lanes[i]->thread;
        team.values[i] = lanes[i]->values;
        team.present |= 1u << lanes[i]->thread % 32;
    }
}

void Races::synchronise_together(const Event& event) {
    Under& block = *team.block;
    team.compared = team.known = false;
    const bool arrived = event.kind() == Kind::warp_arrived;
    if (arrived && block.order.collective_together(team.self[0].thread / 32, team.present, event.extra())) return;
    if (event.kind() == Kind::warp_passed && block.order.passed_together(team.self[0].thread / 32)) return;
    for (uint32_t i = 0; i < team.count; ++i) synchronise(block, team.self[i].thread, event);
}

void Races::access_together(const Event& first, const uint64_t* address, size_t value) {
    if (first.extra() == Event::no_region) return;
    if (!team.compared) compare_team();
    if (access_rows(first, address, value)) return;
    if (team.alike && first.size() == 4) {
        if (first.kind() == Kind::write) return access_words<true>(first, address, value);
        return access_words<false>(first, address, value);
    }
    for (uint32_t i = 0; i < team.count; ++i) access_of_lane(first, i, address[i], value);
}

void Races::compare_team() {
    const BlockOrder& order = team.block->order;
    const uint32_t first = team.self[0].thread;
    const ThreadOrder& one = order.threads[first];
    team.row = order.warp_row(first);
    uint32_t different = !order.acquired.empty() || (team.row && !one.together);
    for (uint32_t i = 1; i < team.count; ++i) {
        const ThreadOrder& other = order.threads[team.self[i].thread];
        different |= (other.clock ^ one.clock) | (other.block_clock ^ one.block_clock) | (other.together != one.together);
    }
    team.compared = true;
    team.alike = !different;
    team.clock = order.stamp(first);
    team.block_clock = one.block_clock;
}

// As `plain` does for one lane, of 4 bytes at any addresses.
template <bool write>
void Races::access_words(const Event& first, const uint64_t* address, size_t value) {
    const BlockOrder& order = team.block->order;
    const Ground ground = team.block->shadows.all[first.extra()];
    const uint32_t block_clock = team.block_clock;
    Shadow::Page* page = nullptr;
    uint64_t begin = 0;  // of the page
    auto expected = [&](uint32_t i) {
        uint64_t at = address[i] - begin;
        if (at >= Shadow::page_bytes || !page) {
            if (address[i] < ground.begin || address[i] + 4 > ground.end) return false;
            uint32_t there;
            page = &ground.shadow->page_of(address[i], there);
            begin = address[i] - there;
            at = there;
        }
        if (page->shift != 2 || at & 3) return false;
        const Actor actor = order.actor(team.self[i].thread);
        auto known = [&](const Record& one) {
            return one.actor() == actor || order.known_by_all(one.actor(), one.clock(), block_clock) ||
                   (team.row && one.actor() / 32 == actor / 32 && one.clock() <= team.row[one.actor() % 32]);
        };
        const uint32_t value_left = write ? team.values[i][value] : 0;
        const Record mine(actor, team.clock, first.pc(), first.kind(), false, value_left);
        return as_expected<write>(*page, uint32_t(at / 4), mine, ground.shared, ground.begun, known);
    };
    bool before = false;  // the lane before was
    for (uint32_t i = 0; i < team.count; ++i) {
        // Of lanes that read the same, two are remembered.
        if (!write && before && i >= 2 && address[i] == address[i - 1] && address[i] == address[i - 2]) continue;
        before = expected(i);
        if (!before) access_of_lane(first, i, address[i], value);
    }
}

static bool consecutive(const uint64_t* address, uint32_t size) {
    uint64_t different = 0;
    for (uint32_t i = 0; i < 32; ++i) different |= (address[i] - address[0]) ^ uint64_t(i) * size;
    return !different;
}

// What `check` does for each lane, if nothing is wrong. False: nothing is done.
bool Races::access_rows(const Event& first, const uint64_t* address, size_t value) {
    const uint32_t size = first.size();
    if (!team.alike || team.count != 32 || size < 4 || !consecutive(address, size)) return false;
    const BlockOrder& order = team.block->order;
    const Ground& ground = team.block->shadows.all[first.extra()];
    if (address[0] < ground.begin || address[31] + size > ground.end) return false;

    const uint32_t shift = size / 8;  // 4, 8 and 16 bytes: 1, 2 and 4 words
    const Actor actor = order.actor(team.self[0].thread);
    const bool write = first.kind() == Kind::write;
    auto mine = [&](uint32_t row) {
        return Record(actor + (row * Rows::words >> shift), team.clock, first.pc(), first.kind(), false, shift);
    };
    auto gone = [&](const Record& one, const Record& my) {
        if (one.clock() < ground.begun || order.known_by_all(one.actor(), one.clock(), team.block_clock)) return true;
        return one.actor() == my.actor() && one.value() == shift;  // each lane's own
    };
    struct Place {
        Rows* rows;
        uint32_t row;
    } place[4];
    const uint32_t count = 1u << shift;
    for (uint32_t i = 0; i < count; ++i) {
        Rows* const rows = place[i].rows = ground.shadow->rows_of(address[0] + i * Rows::bytes, place[i].row);
        if (!rows) return false;
        const uint32_t row = place[i].row;
        const Record my = mine(i);
        const bool written = rows->write[row].clock() >= ground.begun;
        if (written ? !gone(rows->write[row], my) : ground.shared && !write) return false;
        if (write && !(gone(rows->read[row], my) && gone(rows->other[row], my))) return false;
    }
    for (uint32_t i = 0; i < count; ++i) {
        auto [rows, row] = place[i];
        const Record my = mine(i);
        Record &read = rows->read[row], &other = rows->other[row];
        if (write) {
            read.set_clock(0);
            other.set_clock(0);
            rows->write[row] = my;
            if (!rows->values) rows->values.reset(new uint32_t[Rows::rows_per_page * Rows::words]);
            for (uint32_t word = 0; word < Rows::words; ++word) {
                const uint32_t all = i * Rows::words + word;
                rows->values[row * Rows::words + word] = team.values[all >> shift][value + (all & (count - 1))];
            }
        } else if (gone(read, my)) {
            read = my;
        } else if (actor / 32 == read.actor() / 32 ? other.actor() / 32 == actor / 32 || other.clock() < ground.begun
                                                   : other.actor() / 32 == read.actor() / 32 || gone(other, my)) {
            other = my;
        }
    }
    return true;
}

}  // namespace lens
}  // namespace kernels
