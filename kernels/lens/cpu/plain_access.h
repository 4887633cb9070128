// What the checks for races do with a plain access, if nothing is wrong.
#pragma once
#include "shadow.h"

namespace kernels {
namespace lens {

// Of one piece of memory, of which what is older than `begun` is another block's. `known(record)`: whether it happened before.
// False: nothing is done, and there may be something wrong.
template <bool write, class Known>
[[gnu::always_inline]] inline bool as_expected(Shadow::Page& page, uint32_t index, const Record& mine, bool shared,
                                               uint32_t begun, Known known) {
    auto gone = [&](const Record& one) { return one.clock() < begun || known(one); };
    Record* const last = page.write ? &page.write[index] : nullptr;
    if (last && last->clock() >= begun) {
        if (last->in_flight() || !known(*last)) return false;
    } else if (shared && !write) {
        return false;
    }
    Record* const read = page.read ? &page.read[index] : nullptr;
    Record* const other = page.other ? &page.other[index] : nullptr;
    if (write) {
        if (!last || (read && !gone(*read)) || (other && !gone(*other))) return false;
        if (read) read->set_clock(0);
        if (other) other->set_clock(0);
        *last = mine;
        return true;
    }
    if (!read) return false;
    if (gone(*read)) {
        *read = mine;
        return true;
    }
    if (!other) return false;
    const uint32_t warp = mine.actor() / 32;
    if (warp == read->actor() / 32 ? other->actor() == mine.actor() || other->clock() < begun
                                   : other->actor() / 32 == read->actor() / 32 || gone(*other))
        *other = mine;
    return true;
}

}  // namespace lens
}  // namespace kernels
