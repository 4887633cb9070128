#include "findings.h"

namespace kernels {
namespace lens {

// Of the same warp, of the same block, or of two blocks.
static uint32_t distance(const Finding& finding) {
    if (finding.first.block != finding.second.block) return 2;
    return finding.first.thread / 32 != finding.second.thread / 32;
}

void Findings::add(Wrong wrong, const Finding& finding) {
    const int64_t region = finding.region ? int64_t(finding.region->number) : -1;
    const Key key = {wrong, finding.first.pc, finding.second.pc, region, distance(finding)};
    auto found = rows.find(key);
    if (found != rows.end()) {
        ++found->second.count;
        return;
    }
    if (rows.size() >= most) return;
    const uint64_t offset = finding.region ? finding.address - finding.region->begin : finding.address;
    rows.insert({key, {finding, int64_t(offset), 1}});
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
