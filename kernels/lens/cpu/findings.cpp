#include "findings.h"

namespace kernels {
namespace lens {

// It shows in what one thread does.
static bool one_sided(Wrong wrong) { return wrong != Wrong::race && wrong != Wrong::in_flight; }

// Of the same warp, of the same block, or of two blocks.
static uint32_t distance(Wrong wrong, const Finding& finding) {
    if (one_sided(wrong)) return 0;
    if (finding.first.block != finding.second.block) return 2;
    return finding.first.thread / 32 != finding.second.thread / 32;
}

void Findings::add(Wrong wrong, const Finding& finding) {
    const int64_t region = finding.region ? int64_t(finding.region->number) : -1;
    const Key key = {wrong, finding.first.pc, finding.second.pc, region, distance(wrong, finding)};
    auto found = rows.find(key);
    const int64_t offset = int64_t(finding.region ? finding.address - finding.region->begin : finding.address);
    if (found != rows.end()) {
        Row& row = found->second;
        const auto number = [](const Party& one) { return std::make_pair(one.block, one.thread); };
        if (one_sided(wrong) && number(finding.second) < number(row.example.second))
            row.example = finding, row.offset = offset;  // the first thread, whichever came first
        ++row.count;
        return;
    }
    if (rows.size() >= most) return;
    rows.insert({key, {finding, offset, 1}});
}

bool Findings::forgiven(const Finding& race) const {
    auto guess = [&](const Party& one, const Party& other) {
        return one.kind == Kind::read && is_atomic(other.kind) && guesses.count(one.pc);
    };
    return guess(race.first, race.second) || guess(race.second, race.first);
}

std::string Findings::result() {
    std::string text = "\"findings\": [";
    auto add = [&](int64_t value) { text += std::to_string(value) + ", "; };
    auto party = [&](const Party& one) {
        for (uint64_t value : {one.block, uint64_t(one.thread), uint64_t(one.pc), uint64_t(one.kind)}) add(int64_t(value));
    };
    for (const auto& [key, row] : rows) {
        if (std::get<0>(key) == Wrong::race && forgiven(row.example)) continue;
        text += text.back() == '[' ? "[" : ", [";
        add(int64_t(std::get<0>(key)));
        party(row.example.first);
        party(row.example.second);
        add(std::get<3>(key));
        for (int64_t value : {row.offset, int64_t(row.example.size), row.example.index, int64_t(row.example.length)}) add(value);
        text += std::to_string(row.count) + "]";
    }
    return text + "]";
}

}  // namespace lens
}  // namespace kernels
