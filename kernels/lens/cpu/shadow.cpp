#include "shadow.h"

namespace kernels {
namespace lens {

void Shadow::spread(Page& page) {
    const std::unique_ptr<Rows> rows = std::move(page.rows);
    auto into = [&](Table& table, const Record* row, const uint32_t* values) {
        for (uint32_t index = 0; index < Rows::rows_per_page * Rows::words; ++index) {
            const Record& one = row[index / Rows::words];
            if (!one.clock()) continue;
            const uint32_t actor = one.actor() + (index % Rows::words >> one.value());
            in(page, table, index) = Record(actor, one.clock(), one.pc(), one.kind(), false, values ? values[index] : 0);
        }
    };
    into(page.write, rows->write, rows->values.get());
    into(page.read, rows->read, nullptr);
    into(page.other, rows->other, nullptr);
}

}  // namespace lens
}  // namespace kernels
