// Gathers the events of the thread that runs and hands them to the consumers whenever another thread may go on. There is
// one recorder: a traced launch has one OS thread.
#pragma once
#include <map>
#include <memory>

#include "counters.h"
#include "events.h"
#include "kernels/abi.h"

namespace kernels {
namespace lens {

// What is under way: changes when the runtime switches from fiber to fiber, and is put back by whoever comes back.
struct Current {
    BlockInfo* block = nullptr;
    uint64_t stack = 0;  // the lowest address of the fiber's stack
};

class Recorder {
   public:
    static constexpr uint64_t stack_bytes = 128 << 10;  // of a fiber (runtime/fiber.cpp)

    void record(Kind kind, const void* address, uint32_t size, const void* caller, uint32_t extra = 0) {
        const uint64_t at = reinterpret_cast<uint64_t>(address);
        // A thread's stack is its registers; `self` is what the headers keep of it.
        if (at - current.stack < stack_bytes || at - reinterpret_cast<uint64_t>(self) < sizeof(Thread)) return;
        // So is the table of what it calls: reading it is a step, and no access.
        if (at - reinterpret_cast<uint64_t>(recorded) < sizeof(Runtime)) kind = Kind::branch;
        append(kind, at, size, caller, extra);
    }
    void append(Kind kind, uint64_t value, uint32_t size, const void* caller, uint32_t extra = 0) {
        if (self->starting) return;
        if (self->running != thread || next == buffer + capacity) turn();
        *next++ = {value, uint32_t(reinterpret_cast<uint64_t>(caller) - base), kind, uint8_t(size), uint16_t(extra)};
    }

    void deliver();            // what was gathered, to the consumers
    void branch(const void* caller);
    void run(const char* args);  // in place of a kernel's own: the threads of a block, on the calling fiber
    void go_on(const Current& saved);  // a fiber of the kernel runs
    void pause();                      // the runtime runs: what it calls in the kernel's library is not the kernel's
    bool fault();  // the last event would crash; false: no thread runs
    bool below_stack(const void* address) const;  // of the thread that runs, where nothing else of its is
    void prepare(const Kernel& kernel, uint64_t base, bool polls, LaunchInfo launch, std::vector<uint64_t> sample);
    std::string result();

    Current current;
    Thread* self = &nobody;       // the built-in variables of the thread that runs, if one does
    Thread* variables = nullptr;  // those of the kernel's library
    Kernel kernel;           // the traced kernel's, as its library has it
    const Runtime* original = nullptr;
    const Runtime* recorded = nullptr;  // in its place

   private:
    static constexpr size_t capacity = 4096;
    static Thread nobody;

    void turn();

    Event buffer[capacity];
    Event* next = buffer;
    uint32_t thread = 0;  // whose events are in the buffer
    uint64_t base = 0;
    bool polls = false;
    int branches = 4096;

    LaunchInfo launch;
    std::vector<uint64_t> sample;  // sorted numbers of the blocks to run; empty: all
    struct Under {
        BlockInfo info;
        uint32_t fibers;  // that run its threads
    };
    std::map<uint64_t, Under> blocks;  // under way
    Counters* counters = nullptr;      // one of the consumers
    std::vector<std::unique_ptr<Consumer>> consumers;
};

extern Recorder recorder;
const Runtime* recording(const Runtime& original);  // passes on what is called, and records it

}  // namespace lens
}  // namespace kernels
