// For every piece of memory, who wrote it last and who has read it since.
#pragma once
#include <stdint.h>

#include <memory>
#include <vector>

#include "events.h"

namespace kernels {
namespace lens {

// An access that is remembered. `actor`: who; `clock`: when (order.h), 0 for no access. `in_flight`: an asynchronous copy
// that no one has waited for. `value`: what a write left there, in 4 bytes around it.
// Two words rather than fields: to read whole what has just been written in parts costs as much as the rest of a check.
class Record {
   public:
    Record() = default;
    Record(uint32_t actor, uint32_t clock, uint32_t pc, Kind kind, bool in_flight, uint32_t value)
        : when(uint64_t(clock) << 32 | actor),
          what(uint64_t(value) << 32 | uint32_t(in_flight) << 31 | uint32_t(kind) << 27 | pc) {}
    uint32_t actor() const { return uint32_t(when); }
    uint32_t clock() const { return uint32_t(when >> 32); }
    uint32_t pc() const { return uint32_t(what) & ((1u << 27) - 1); }
    Kind kind() const { return Kind(what >> 27 & 15); }
    bool in_flight() const { return what >> 31 & 1; }
    uint32_t value() const { return uint32_t(what >> 32); }
    void land() { what &= ~(uint64_t(1) << 31); }
    void set_clock(uint32_t clock) { when = uint64_t(clock) << 32 | actor(); }

   private:
    uint64_t when = 0, what = 0;
};
static_assert(sizeof(Record) == 16, "");

// What a write left in a piece at `address`, of 4 bytes or fewer.
inline uint32_t value_of(const Event& write, const uint32_t* values, uint64_t address, uint32_t shift) {
    const uint64_t at = address - write.address;
    if (shift == 2) return values[at / 4];
    return values[at / 4] >> at % 4 * 8 & ((1u << (8u << shift)) - 1);
}

// Rows of 32 words, of which a warp's lanes in order access one each, or 2 or 4: one record for all. Its actor is the first
// word's, its value the logarithm of how many words are one lane's. Values: of what was written.
struct Rows {
    static constexpr uint32_t words = 32, bytes = 128, rows_per_page = 8;
    Record write[rows_per_page], read[rows_per_page], other[rows_per_page];
    std::unique_ptr<uint32_t[]> values;
};

// Pieces are of 4 bytes, but smaller where smaller accesses were seen: neighbouring bytes are no conflict.
class Shadow {
   public:
    static constexpr uint64_t page_bytes = 1024;

    Shadow() = default;
    Shadow(uint64_t begin, uint64_t end) : begin(begin & ~uint64_t(15)), pages((end - this->begin) / page_bytes + 1) {}

    // `first` is where the memory begins, which begins at a multiple of 16 here.
    bool is_of(uint64_t first) const { return begin == (first & ~uint64_t(15)) && !pages.empty(); }

    // Calls `visit(page, index of the piece, its address)` for each piece that an access touches.
    template <class Visit>
    void visit(uint64_t address, uint32_t size, Visit visit) {
        const uint64_t end = address + size;
        while (address < end) {
            uint32_t at;
            Page& page = page_of(address, at);
            const uint64_t rest = page_bytes - at;
            const uint32_t stop = at + uint32_t(end - address < rest ? end - address : rest);
            while ((at | stop) & ((1u << page.shift) - 1)) refine(page);
            const uint64_t from = address - at;
            for (uint32_t index = at >> page.shift; index < stop >> page.shift; ++index)
                visit(page, index, from + (uint64_t(index) << page.shift));
            address = from + stop;
        }
    }

    // The last write; and two reads since, of different warps or blocks if there were such: of two, one is in the way of a
    // thread that writes after having read itself. Tables exist once something is to be written into them: much memory is only read, or only written.
    using Table = std::unique_ptr<Record[]>;
    struct Page {
        uint32_t shift = 2;
        Table write, read, other;
        std::unique_ptr<Rows> rows;  // instead, as long as warps access the page by whole rows alone
    };
    static Record& in(Page& page, Table& table, uint32_t index) {
        if (!table) table.reset(new Record[page_bytes >> page.shift]());
        return table[index];
    }

    // The page of an address, and `at`: where in it.
    Page& page_of(uint64_t address, uint32_t& at) {
        at = uint32_t((address - begin) % page_bytes);
        Page& page = pages[(address - begin) / page_bytes];
        if (page.rows) spread(page);
        return page;
    }
    // The rows of the page of an address, and `row`: which of them begins there. nullptr: none, or they are not whole.
    Rows* rows_of(uint64_t address, uint32_t& row) {
        const uint64_t at = address - begin;
        Page& page = pages[at / page_bytes];
        if (at % Rows::bytes || (!page.rows && (page.write || page.read || page.shift != 2))) return nullptr;
        if (!page.rows) page.rows.reset(new Rows);
        row = uint32_t(at % page_bytes / Rows::bytes);
        return page.rows.get();
    }

   private:
    static void spread(Page&);  // the rows into tables
    static void refine(Page& page) {
        for (Table* table : {&page.write, &page.read, &page.other}) {
            if (!*table) continue;
            const uint32_t count = uint32_t(page_bytes >> page.shift);
            Table finer(new Record[2 * count]);
            for (uint32_t i = 0; i < 2 * count; ++i) finer[i] = (*table)[i / 2];
            *table = std::move(finer);
        }
        --page.shift;
    }

    uint64_t begin = 0;
    std::vector<Page> pages;
};

}  // namespace lens
}  // namespace kernels
