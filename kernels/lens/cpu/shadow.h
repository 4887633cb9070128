// For every piece of memory, who wrote it last and who has read it since.
#pragma once
#include <stdint.h>

#include <memory>
#include <vector>

namespace kernels {
namespace lens {

// An access that is remembered. `actor`: who; `clock`: when (order.h), 0 for no access.
struct Record {
    uint32_t actor, clock;
    uint32_t pc : 27, kind : 4, in_flight : 1;  // in flight: an asynchronous copy that nobody has waited for
    uint32_t value;  // what a write left there, in 4 bytes around it
};
static_assert(sizeof(Record) == 16, "");

// Pieces are of 4 bytes, but smaller where smaller accesses were seen: neighbouring bytes are no conflict.
class Shadow {
   public:
    static constexpr uint64_t page_bytes = 1024;

    Shadow() = default;
    Shadow(uint64_t begin, uint64_t end) : begin(begin & ~uint64_t(15)), pages((end - this->begin) / page_bytes + 1) {}

    uint64_t begins_at() const { return begin; }

    // Calls `visit(page, index of the piece, its address)` for each piece that an access touches.
    template <class Visit>
    void visit(uint64_t address, uint32_t size, Visit visit) {
        const uint64_t end = address + size;
        while (address < end) {
            Page& page = pages[(address - begin) / page_bytes];
            uint32_t at = uint32_t((address - begin) % page_bytes);
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
    };
    static Record& in(Page& page, Table& table, uint32_t index) {
        if (!table) table.reset(new Record[page_bytes >> page.shift]());
        return table[index];
    }

   private:
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
