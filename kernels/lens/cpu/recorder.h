// Gathers the events of the thread that runs, and hands them on whenever another thread may go on. There is one recorder: one
// OS thread runs a traced launch.
#pragma once
#include <map>
#include <memory>

#include "bounds.h"
#include "events.h"
#include "follower.h"
#include "gathered.h"
#include "kernels/abi.h"

namespace kernels {
namespace lens {

// A block that runs, as its threads see it.
struct BlockUnderWay {
    BlockInfo info;
    uint32_t fibers;        // that run its threads
    uint32_t resting[32];   // the lanes of each warp that wait for the rest of it, one bit each
    uint32_t arrived;       // threads that have come to the next barrier
    uint32_t passed;        // barriers
};

// What is in flight: changes when the runtime switches from fiber to fiber, and is put back by whoever comes back.
struct Current {
    BlockUnderWay* block = nullptr;
    uint64_t stack = 0;  // the lowest address of the fiber's stack
};

class alignas(apart) Recorder {
   public:
    static constexpr uint64_t stack_bytes = 128 << 10;  // of a fiber (runtime/fiber.cpp)

    Recorder();
    void record(Kind kind, const void* address, uint32_t size, const void* caller, uint32_t how = 0) {
        const uint64_t at = reinterpret_cast<uint64_t>(address);
        if (on_stack(address)) return;
        const Region* region = seen[pc_of(caller) % places];
        if (at < region->begin || at + size > region->end || at & (size - 1)) return examine(kind, at, size, caller, how);
        push(kind, how, {at, pc_of(caller), kind, size, how, uint16_t(region->number)});
    }
    void append(Kind kind, uint64_t value, const void* caller, uint32_t extra = 0) {
        push(kind, 0, {value, pc_of(caller), kind, 0, 0, uint16_t(extra)});
    }
    bool on_stack(const void* address) const {
        return reinterpret_cast<uint64_t>(address) - current.stack < stack_bytes;
    }
    void append_access(Kind, uint64_t address, uint32_t size, const void* caller, uint32_t how = 0);
    void out_of_array(int64_t index, uint32_t length, const void* caller);

    void deliver();              // what was gathered, to be looked at, whoever else is to come
    void branch(const void* caller);
    void run(const char* args);  // in place of a kernel's own: the threads of a block, on the calling fiber
    // A fiber of the kernel runs, of this block, whose dynamic shared memory is its own.
    void go_on(const Current& saved) {
        if (!gathered.empty() && gathered.block() != saved.block->info.number) deliver();
        self = variables;
        current = saved;
        launch.turn_to(saved.block->info);
    }
    void close();       // a stretch of the thread that runs has ended
    uint32_t arrive();  // at which barrier of the block, counted from 1
    void before_passed(uint32_t barrier, const void* caller);
    // The runtime runs: what it calls in the kernel's library is not the kernel's.
    void pause() {
        close();
        self = &no_thread;
    }
    bool fault(const void* address);  // the last event would crash, or what follows it; false: it is none of a thread's
    bool running() const { return self == variables; }
    uint32_t pc_of(const void* caller) const { return uint32_t(reinterpret_cast<uint64_t>(caller) - base); }
    bool has_code(const void* at) const { return reinterpret_cast<uint64_t>(at) - base < 1u << 28; }  // or nearly
    uint32_t last_code() const { return next != first ? next[-1].pc() : 0; }  // that the thread which runs was seen in
    bool below_stack(const void* address) const;  // of the thread that runs, where nothing else of its is
    void prepare(const Kernel& kernel, uint64_t base, bool polls, LaunchInfo launch, std::vector<uint64_t> sample);
    std::string result();

    Current current;
    struct Guess {
        const void* address;
        uint32_t bytes;
        const void* caller;
        bool overwrites;  // what the compare and swap that follows is part of
    } guess = {};  // an atomic that is no event yet; none, if it has no bytes
    Thread* self = &no_thread;       // the built-in variables of the thread that runs, if one does
    Thread* variables = nullptr;  // those of the kernel's library
    Kernel kernel;           // the traced kernel's, as its library has it
    const Runtime* original = nullptr;
    const Runtime* recorded = nullptr;  // in its place

   private:
    static constexpr uint32_t none = ~0u;
    static Thread no_thread;

    void push(Kind kind, uint32_t how, Event event) {
        if (next == end) return begin(event);
        if (kind == Kind::write) *next_write++ = next;
        if (is_ordering(kind, how)) open->ordering = true;
        *next++ = event;
    }
    void begin(Event);
    void rest();
    bool caught_up(const BlockUnderWay&, uint32_t thread);
    void examine(Kind, uint64_t address, uint32_t size, const void* caller, uint32_t how);

    // The region of an access is mostly the one that its instruction was seen in before, here by some bits of its pc.
    static constexpr size_t places = 4096;
    static const Region nowhere;
    const Region* seen[places];

    Gathered gathered;
    // The stretch in flight, of `thread`, if any is. A thread that has come to `enough` lets the rest of its warp catch up.
    uint32_t thread = none;
    Stretches* open = nullptr;
    Event *first = nullptr, *next = nullptr, *enough = nullptr, *end = nullptr;
    const Event* writes[Stretch::most_events];
    const Event** next_write = writes;
    uint64_t base = 0;
    bool polls = false;

    LaunchInfo launch;
    std::vector<uint64_t> sample;  // sorted numbers of the blocks to run; empty: all
    std::map<uint64_t, BlockUnderWay> blocks;
    Findings findings;
    Bounds bounds;
    std::unique_ptr<Follower> follower;
    uint64_t barriers = 0;  // each counts once a block
    // A barrier that was passed though threads of the block had returned before; of the first block, if there was any.
    struct {
        uint32_t pc, threads;
        uint64_t block;
    } without = {};
    size_t behind = 0;  // events that the follower's counters could not replay, when it had last caught up
};

extern Recorder recorder;
const Runtime* recording(const Runtime& original);  // passes on what is called, and records it

}  // namespace lens
}  // namespace kernels
