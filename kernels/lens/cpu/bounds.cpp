#include "bounds.h"

namespace kernels {
namespace lens {

static bool misaligned(const Event& event) {
    if (event.size == 0 || (event.size & (event.size - 1)) || !(event.address & (event.size - 1))) return false;
    const bool plain = event.kind == Kind::read || event.kind == Kind::write;
    return !plain || !(event.extra & may_be_misaligned);
}

void Bounds::check(const BlockInfo& block, uint32_t thread, const Event& event, const Region* region) {
    Finding finding;
    finding.second = {block.number, thread, event.pc, event.kind};
    finding.region = region;
    finding.address = event.address;
    finding.size = event.size;
    if (misaligned(event)) findings.add(Wrong::misaligned, finding);
    else if (event.address < region->begin || event.address + event.size > region->end)
        findings.add(Wrong::out_of_bounds, finding);
}

void Bounds::ran(const BlockInfo& block, uint32_t thread, const Event* first, const Event* last) {
    for (const Event* event = first; event != last; ++event) {
        if (is_access(event->kind)) {
            const Region* region = seen.of(*event);
            if (!region) continue;
            const uint64_t offset = event->address - region->begin, bytes = region->end - region->begin;
            if (offset >= bytes || event->size > bytes - offset || event->address & (event->size - 1u))
                check(block, thread, *event, region);
        } else if (event->kind == Kind::index_out_of_bounds) {
            Finding finding;
            finding.second = {block.number, thread, event->pc, event->kind};
            finding.index = int64_t(event->address);
            finding.length = event->extra;
            findings.add(Wrong::index, finding);
        }
    }
}

// The processor refuses wide accesses that are not aligned, and addresses with no memory behind them: those far outside of
// a tensor, and those that come from nowhere.
void Bounds::faulted(const BlockInfo& block, uint32_t thread, const Event& event) {
    if (!is_access(event.kind)) return;
    const Region* region = launch.region(event.address);
    if (region) return check(block, thread, event, region);
    Finding finding;
    finding.second = {block.number, thread, event.pc, event.kind};
    finding.address = event.address;
    finding.size = event.size;
    findings.add(misaligned(event) ? Wrong::misaligned : Wrong::wild, finding);
}

}  // namespace lens
}  // namespace kernels
