#include "copies.h"

#include <string.h>

#include "kernels/abi.h"

namespace kernels {

void Copies::add(uint32_t thread, void* to, const void* from, uint32_t bytes, uint32_t zeros) {
    if (open.empty()) open.resize(max_threads), own.resize(max_threads);
    used = true;
    open[thread].push_back({to, from, bytes, zeros});
}

Copies::Queue& Copies::queue(uint32_t thread, const void* owner) {
    if (open.empty()) open.resize(max_threads), own.resize(max_threads);
    used = true;
    return owner ? shared[owner] : own[thread];
}

void Copies::commit(uint32_t thread, const void* owner) {
    Queue& to = queue(thread, owner);
    if (owner && open[thread].empty()) return;  // batches are counted in a thread's own queue alone
    to.push_back(std::move(open[thread]));
    open[thread].clear();
}

void Copies::land(uint32_t thread, const void* owner, uint32_t keep) {
    Queue& from = queue(thread, owner);
    while (from.size() > keep) {
        for (const Copy& copy : from.front()) {
            memcpy(copy.to, copy.from, copy.bytes - copy.zeros);
            memset(static_cast<char*>(copy.to) + copy.bytes - copy.zeros, 0, copy.zeros);
        }
        from.pop_front();
    }
}

void Copies::forget() {
    if (!used) return;
    used = false;
    for (Batch& batch : open) batch.clear();
    for (Queue& queue : own) queue.clear();
    shared.clear();
}

}  // namespace kernels
