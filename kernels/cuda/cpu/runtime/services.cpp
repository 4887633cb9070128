// What kernels ask of the runtime beside barriers and collectives, and the output of printf on its way to Python.
#include "kernels/services.h"

#include <deque>
#include <mutex>

#include "block.h"

namespace kernels {

namespace {

// What was printed and not yet taken. As on a GPU, no more than 1 MiB is kept, and new output replaces the oldest (CUDA
// C++ Programming Guide, "Formatted Output").
struct Printed {
    static constexpr size_t most_bytes = 1 << 20;
    std::mutex mutex;
    std::deque<std::string> pieces;
    size_t bytes = 0;

    void add(const char* text, size_t count) {
        std::lock_guard<std::mutex> lock(mutex);
        pieces.emplace_back(text, count);
        bytes += count;
        while (bytes > most_bytes && pieces.size() > 1) {
            bytes -= pieces.front().size();
            pieces.pop_front();
        }
    }

    std::string take() {
        std::lock_guard<std::mutex> lock(mutex);
        std::string text;
        for (const std::string& piece : pieces) text += piece;
        pieces.clear();
        bytes = 0;
        return text;
    }
} printed;

}  // namespace

const Services services = {
    [](const char* what, Site site) { Block::running().fail_at(what, site); },
    [](uint32_t bound) { Block::running().fail_bound(bound); },
    [](const char* text, size_t bytes) { printed.add(text, bytes); },
    [](bool (*ready)(const void*), const void* state, const char* name, Site site) {
        Block::running().wait_until({ready, state, name}, site);
    },
    [](void* to, const void* from, uint32_t bytes, uint32_t zeros) {
        Block::running().copies.add(Block::running().thread_number(), to, from, bytes, zeros);
    },
    [](const void* owner) { Block::running().copies.commit(Block::running().thread_number(), owner); },
    [](const void* owner, uint32_t keep) { Block::running().copies.land(Block::running().thread_number(), owner, keep); },
    [](const void* address) { return Block::running().space(address); },
};

}  // namespace kernels

// What kernels have printed since the last call. It stays until the calling thread calls again.
extern "C" __attribute__((visibility("default"))) const char* kernels_printed(size_t* bytes) {
    static thread_local std::string text;
    text = kernels::printed.take();
    *bytes = text.size();
    return text.data();
}
