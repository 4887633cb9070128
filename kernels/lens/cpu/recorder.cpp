#include "recorder.h"

#include <algorithm>
#include <utility>

namespace kernels {
namespace lens {

// Before a launch nothing is recorded: a library's own constructors are instrumented too.
Thread Recorder::no_thread = [] {
    Thread thread = {};
    thread.starting = true;
    return thread;
}();
Recorder recorder;
const Region Recorder::nowhere = {1, 0, 1, 0, Space::none, 0};

Recorder::Recorder() : bounds(launch, findings) { std::fill(seen, seen + places, &nowhere); }

void Recorder::prepare(const Kernel& traced, uint64_t library, bool waits, LaunchInfo info, std::vector<uint64_t> chosen) {
    kernel = traced;
    variables = kernel.thread();
    variables->guarded = true;  // by the lens
    base = library;
    polls = waits;
    launch = std::move(info);
    sample = std::move(chosen);
    blocks.clear();
    guess = {};
    launch.number_regions();
    std::fill(seen, seen + places, &nowhere);
    thread = none;
    first = next = end = enough;
    gathered.forget();
    findings = {};
    barriers = 0;
    without = {};
    follower.reset();  // the old before the new: time begins again
    follower.reset(new Follower(launch));
    behind = 0;
}

// An access that is not where its instruction's last one was, or not as it should be.
void Recorder::examine(Kind kind, uint64_t at, uint32_t size, const void* caller, uint32_t how) {
    // `self` is what the headers keep of a thread.
    if (at - reinterpret_cast<uint64_t>(self) < sizeof(Thread)) return;
    // So is the table of what it calls: reading it is a step, and no access.
    if (at - reinterpret_cast<uint64_t>(recorded) < sizeof(Runtime)) return append(Kind::branch, 0, caller);
    append_access(kind, at, size, caller, how);
}

void Recorder::append_access(Kind kind, uint64_t at, uint32_t size, const void* caller, uint32_t how) {
    if (self->starting) return;
    const Region* region = launch.region(at);
    const uint16_t number = region ? uint16_t(region->number) : Event::no_region;
    const Event event(at, pc_of(caller), kind, size, how, number);
    push(kind, how, event);
    if (!region) {
        if (const Region* overrun = launch.overrun(at, size)) bounds.check(current.block->info, self->running, event, *overrun);
        return;
    }
    seen[event.pc() % places] = region;
    bounds.check(current.block->info, self->running, event, *region);
}

// Seen before the access.
void Recorder::out_of_array(int64_t index, uint32_t length, const void* caller) {
    if (!self->starting) bounds.out_of_array(current.block->info, self->running, pc_of(caller), index, length);
}

// The first event of a stretch, unless it is not a thread's: none is in flight, or no room is left.
void Recorder::begin(Event event) {
    if (thread != none) close();
    if (self->starting) return;
    if (follower->tape().full() || (gathered.empty() && follower->tape().long_enough())) {
        gathered.hand_on(follower->tape());
        follower->turn();
    }
    thread = self->running;
    open = &gathered.begin(follower->tape(), current.block->info, thread);
    first = next = follower->tape().room();
    enough = first + Stretch::most_events / 4;
    end = first + Stretch::most_events;
    next_write = writes;
    push(event.kind(), event.how(), event);
}

void Recorder::close() {
    if (thread == none) return;
    const uint32_t warp = thread / warp_size, lanes = std::min(warp_size, launch.threads - warp * warp_size);
    follower->tape().add(*open, thread, next, writes, size_t(next_write - writes), launch);
    open->finished = variables->finished[warp];
    thread = none;
    first = next = end = enough;
    gathered.ended(follower->tape(), *open, lanes);
}

uint32_t Recorder::arrive() {
    const uint32_t barrier = current.block->passed + 1;
    if (!current.block->arrived++) ++barriers;
    if (thread != none) open->barrier = barrier;
    return barrier;
}

void Recorder::before_passed(uint32_t barrier, const void* caller) {
    BlockUnderWay& block = *current.block;
    if (block.passed < barrier) {  // the first to pass, before anyone can come to the next
        const uint32_t returned = launch.threads - block.arrived;
        if (returned && (!without.threads || block.info.number < without.block))
            without = {pc_of(caller), returned, block.info.number};
        block.passed = barrier;
        block.arrived = 0;
    }
    if (!gathered.empty()) gathered.before_barrier_passed(follower->tape(), barrier);
}

void Recorder::deliver() {
    close();
    gathered.hand_on(follower->tape());
}

void Recorder::branch(const void* caller) {
    append(Kind::branch, 0, caller);
    if (next >= enough && thread != none) rest();
}

// Whether the thread may go on, as far as what waits to be counted is concerned.
bool Recorder::caught_up(const BlockUnderWay& block, uint32_t one) {
    constexpr size_t few = 1 << 19;
    if (behind + follower->behind() < few) return true;
    Counters& counters = follower->caught_up().counters;
    const bool many = counters.many_behind(block.info, one, variables->finished[one / warp_size]);
    behind = counters.behind();
    return !many;
}

// The thread's stretch is long: the rest of its warp catches up, so that what they did together can be counted and forgotten.
void Recorder::rest() {
    if (polls) self->runtime->poll({nullptr, 0, "a loop"});
    close();
    struct Wait {
        BlockUnderWay& block;
        uint32_t thread, warp;
        bool others_ran;  // the runtime asks once before it lets others run
        bool over() {
            const bool asked = std::exchange(others_ran, true);
            const Stretches* those = recorder.gathered.block() == block.info.number ? recorder.gathered.of(warp) : nullptr;
            const bool own = those && those->has(thread);
            if (!asked && (own || !recorder.polls)) return false;
            if (!own && recorder.caught_up(block, thread)) return true;
            if (!asked) return false;
            // The others come first, if any will. Else there is no one to wait for.
            for (uint32_t rest = block.resting[warp] & ~(own ? those->present : bit()); rest; rest &= rest - 1)
                if (recorder.caught_up(block, warp * warp_size + uint32_t(__builtin_ctz(rest)))) return false;
            if (those) recorder.gathered.hand_on(recorder.follower->tape(), warp);
            return true;
        }
        uint32_t bit() const { return 1u << thread % warp_size; }
    } wait = {*current.block, self->running, self->running / warp_size, false};
    uint32_t& resting = wait.block.resting[wait.warp];
    const Current saved = current;
    resting |= wait.bit();
    pause();
    const Site site = {nullptr, 0, "a loop"};
    // Who may be waiting for memory to change goes on polling: to be released from a wait would count as a change.
    while (polls && !wait.over()) original->poll(site);
    if (!polls)
        original->services->wait_until([](const void* one) { return static_cast<Wait*>(const_cast<void*>(one))->over(); },
                                       &wait, "a wait for the rest of the warp", {nullptr, 0, nullptr});
    resting &= ~wait.bit();
    go_on(saved);
}

void Recorder::run(const char* args) {
    if (variables->runtime != recorded) {
        original = variables->runtime;
        recorded = variables->runtime = recording(*original);
    }
    const uint3 index = variables->block_index;
    const dim3 grid = variables->grid_dim;
    const uint64_t number = index.x + uint64_t(grid.x) * (index.y + uint64_t(grid.y) * index.z);
    if (!sample.empty() && !std::binary_search(sample.begin(), sample.end(), number)) {
        variables->next = variables->count;
        return;
    }
    // Its first fiber begins a block, the last to leave ends it.
    auto found = blocks.find(number);
    const bool begins = found == blocks.end();
    if (begins) {
        const BlockInfo info = {number, reinterpret_cast<uint64_t>(variables->dynamic_shared)};
        found = blocks.emplace(number, BlockUnderWay{info, 0, {}, 0, 0}).first;
    }
    // This frame is among the first of the fiber's stack, which ends with a page.
    const uint64_t top = (reinterpret_cast<uint64_t>(__builtin_frame_address(0)) | 4095) + 1;
    const Current own = {&found->second, top - stack_bytes};
    go_on(own);
    if (begins) follower->tape().entries.push_back({Tape::Entry::block_begins, false, own.block->info, nullptr});
    ++found->second.fibers;
    kernel.run(args);
    pause();
    if (--found->second.fibers == 0 && variables->next >= variables->count) {
        gathered.hand_on(follower->tape());
        follower->tape().entries.push_back({Tape::Entry::block_ends, false, own.block->info, nullptr});
        blocks.erase(found);
    }
}

bool Recorder::fault(const void* address) {
    if (self->starting) return false;
    auto seen = [&] { return next != first && is_access(next[-1].kind()); };
    if (guess.bytes) append_access(Kind::atomic, reinterpret_cast<uint64_t>(guess.address), guess.bytes, guess.caller);
    else if (!seen()) {
        // It was not seen: if we know whose memory it is, it is reported where the thread was seen last.
        const uint64_t at = reinterpret_cast<uint64_t>(address);
        const uint32_t pc = next != first ? next[-1].pc() : 0;
        if (launch.region(at)) append_access(Kind::read, at, 1, reinterpret_cast<const void*>(base + pc));
    }
    const uint32_t number = self->running;
    const bool last_is_it = seen();
    const Event last = last_is_it ? *--next : Event();
    if (last.kind() == Kind::write && last_is_it) --next_write;
    deliver();
    if (last_is_it) bounds.faulted(current.block->info, number, last);
    return true;
}

bool Recorder::below_stack(const void* address) const {
    constexpr uint64_t far = 4 << 20;  // of a local array
    const uint64_t at = reinterpret_cast<uint64_t>(address);
    return !self->starting && current.stack - at - 1 < far && !launch.region(at);
}

std::string Recorder::result() {
    gathered.hand_on(follower->tape());
    Observers& observers = follower->caught_up();
    observers.findings.add(findings);
    std::string text = "{" + observers.counters.result() + ", " + observers.findings.result();
    text += ", \"barriers\": " + std::to_string(barriers) + ", \"without\": [";
    if (without.threads)
        text += std::to_string(without.pc) + ", " + std::to_string(without.block) + ", " + std::to_string(without.threads);
    text += "]}";
    self = &no_thread;
    return text;
}

}  // namespace lens
}  // namespace kernels
