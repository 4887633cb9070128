// Asynchronous copies that have not landed, of the block that an OS thread runs.
#pragma once
#include <stdint.h>

#include <deque>
#include <unordered_map>
#include <vector>

namespace kernels {

class Copies {
   public:
    void add(uint32_t thread, void* to, const void* from, uint32_t bytes, uint32_t zeros);
    void commit(uint32_t thread, const void* owner);
    void land(uint32_t thread, const void* owner, uint32_t keep);
    void forget();  // a block has ended: what no one waited for never lands

   private:
    struct Copy {
        void* to;
        const void* from;
        uint32_t bytes, zeros;
    };
    using Batch = std::vector<Copy>;
    using Queue = std::deque<Batch>;

    Queue& queue(uint32_t thread, const void* owner);

    std::vector<Batch> open;   // each thread's copies since its last commit
    std::vector<Queue> own;    // each thread's own queue
    std::unordered_map<const void*, Queue> shared;
    bool used = false;
};

}  // namespace kernels
