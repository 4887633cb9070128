#include "bounds.h"

namespace kernels {
namespace lens {

static bool misaligned(const Event& event) {
    if (event.size() == 0 || (event.size() & (event.size() - 1)) || !(event.address & (event.size() - 1))) return false;
    const bool plain = event.kind() == Kind::read || event.kind() == Kind::write;
    return !plain || !(event.how() & may_be_misaligned);
}

static Finding finding_of(const BlockInfo& block, uint32_t thread, const Event& event) {
    Finding finding;
    finding.second = {block.number, thread, event.pc(), event.kind()};
    finding.address = event.address;
    finding.size = event.size();
    return finding;
}

void Bounds::check(const BlockInfo& block, uint32_t thread, const Event& event, const Region& region) {
    Finding finding = finding_of(block, thread, event);
    finding.region = &region;
    if (misaligned(event)) findings.add(Wrong::misaligned, finding);
    else if (event.address < region.begin || event.address + event.size() > region.end)
        findings.add(Wrong::out_of_bounds, finding);
}

void Bounds::out_of_array(const BlockInfo& block, uint32_t thread, uint32_t pc, int64_t index, uint32_t length) {
    Finding finding;
    finding.second = {block.number, thread, pc, Kind::index_out_of_bounds};
    finding.index = index;
    finding.length = length;
    findings.add(Wrong::index, finding);
}

// The processor refuses wide accesses that are not aligned, and addresses with no memory behind them: those far outside of
// a tensor, which were checked when they were recorded, and those that come from nowhere.
void Bounds::faulted(const BlockInfo& block, uint32_t thread, const Event& event) {
    if (!is_access(event.kind()) || launch.region(event)) return;
    findings.add(misaligned(event) ? Wrong::misaligned : Wrong::wild, finding_of(block, thread, event));
}

}  // namespace lens
}  // namespace kernels
