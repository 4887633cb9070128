#include "faults.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "divisions.h"
#include "worker.h"

namespace kernels {

namespace {

constexpr size_t signal_stack_bytes = 64 << 10;
constexpr int signals[] = {SIGSEGV, SIGBUS, SIGFPE};

struct sigaction before[3], before_interrupt;
Launch* interruptible = nullptr;

uint64_t code_of(const ucontext_t& at) {
#if defined(__x86_64__)
    return uint64_t(at.uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
    return at.uc_mcontext.pc;
#else
    return 0;
#endif
}

uint64_t stack_of(const ucontext_t& at) {
#if defined(__x86_64__)
    return uint64_t(at.uc_mcontext.gregs[REG_RSP]);
#elif defined(__aarch64__)
    return at.uc_mcontext.sp;
#else
    return 0;
#endif
}

uint32_t writes(const ucontext_t& at) {
#if defined(__x86_64__)
    return at.uc_mcontext.gregs[REG_ERR] >> 1 & 1;
#else
    return 2;
#endif
}

// Whether what was refused is an access of 16 bytes, which must be aligned; else the address is none at all.
bool wants_alignment(const ucontext_t& at, int signal, int code) {
#if defined(__x86_64__)
    if (code != SI_KERNEL) return false;
    const uint8_t* byte = reinterpret_cast<const uint8_t*>(code_of(at));
    while (*byte == 0x66 || *byte == 0xf2 || *byte == 0xf3 || (*byte & 0xf0) == 0x40) ++byte;
    return byte[0] == 0x0f && (byte[1] < 0x40 || (byte[1] >= 0x50 && byte[1] < 0x80) || byte[1] >= 0xc2);
#else
    return signal == SIGBUS && code == BUS_ADRALN;
#endif
}

// Where the kernel was: at the instruction, or at a call of what does not belong to it, such as memcpy.
uint64_t kernels_own(const ucontext_t& at, const Settings& settings, const Fiber& fiber) {
    const auto own = [&](uint64_t code) { return code - settings.code_begin < settings.code_end - settings.code_begin; };
    if (own(code_of(at))) return code_of(at);
#if defined(__aarch64__)
    if (own(at.uc_mcontext.regs[30])) return at.uc_mcontext.regs[30] - 1;
#endif
    // A stack that overflowed ends in its guard, where nothing can be read.
    const auto* word = static_cast<const uint64_t*>(fiber.readable(reinterpret_cast<const void*>(stack_of(at))));
    for (; fiber.holds(word) && fiber.holds(word + 1); ++word)
        if (own(*word)) return *word - 1;
    return 0;
}

void pass_on(int signal) {
    for (int i = 0; i < 3; ++i)
        if (signals[i] == signal) sigaction(signal, &before[i], nullptr);
    // The same instruction again, for who was there before.
}

void on_fault(int signal, siginfo_t* info, void* context) {
    ucontext_t& at = *static_cast<ucontext_t*>(context);
    Block* const block = Worker::running_block();
    if (!block || !block->runs_on(reinterpret_cast<void*>(stack_of(at)))) {
        if (!interruptible || !interruptible->lets_a_worker_run(code_of(at))) pass_on(signal);
        return;
    }
    if (signal == SIGFPE) {
        if (!divided_as_a_gpu_does(at)) pass_on(signal);
        return;
    }
    const bool unknown = info->si_code == SI_KERNEL;  // the address
    Fault fault;
    if (wants_alignment(at, signal, info->si_code)) fault.kind = Fault::misaligned;
    else if (unknown) fault.kind = Fault::memory;
    else fault = block->fault_at(info->si_addr);
    fault.code = kernels_own(at, block->settings(), *Worker::current_thread().current);
    fault.writes = unknown ? 2 : writes(at);
    // A kernel that is interrupted loses the right to run.
    if (code_of(at) == uint64_t(info->si_addr) && fault.code == code_of(at)) fault.kind = Fault::interrupted;
    block->fail_by(fault);
}

void on_interrupt(int signal, siginfo_t* info, void* context) {
    if (before_interrupt.sa_flags & SA_SIGINFO) before_interrupt.sa_sigaction(signal, info, context);
    else before_interrupt.sa_handler(signal);
    if (interruptible) interruptible->interrupt();
}

void* page_of(uint64_t address) { return reinterpret_cast<void*>(address & ~uint64_t(sysconf(_SC_PAGESIZE) - 1)); }

}  // namespace

void Block::fail_by(const Fault& why) {
    fault = why;
    fail(thread_name());
}

bool Block::runs_on(const void* stack) const { return worker.current->holds(stack); }

// What an address was meant to be in that there is no access to.
Fault Block::fault_at(const void* address) const {
    constexpr uint64_t null_bytes = 64 << 10;  // where no memory is
    Fault found;
    const uint64_t at = uint64_t(address);
    const auto near = [&](const void* begin, uint64_t bytes, uint64_t around) {
        return at - (uint64_t(begin) - around) < bytes + 2 * around;
    };
    const auto kind = [&](Fault::Kind kind, const void* begin) {
        found.kind = kind;
        found.offset = int64_t(at - uint64_t(begin));
        return found;
    };
    if (worker.current->holds(address)) return kind(Fault::stack, nullptr);
    if (at < null_bytes) return kind(Fault::null_pointer, nullptr);
    if (near(dynamic_shared_memory, dynamic_shared_bytes, dynamic_shared_guard)) return kind(Fault::dynamic_shared, dynamic_shared);
    if (const Guarded* tensor = launch->guards.near(address)) {
        found.argument = tensor->argument;
        return kind(Fault::tensor, launch->guards.copy_of(*tensor));
    }
    if (const char* shared = worker.near_static_shared(address)) return kind(Fault::static_shared, shared);
    return kind(Fault::memory, nullptr);
}

// Wherever its threads are, on whichever OS thread: the next instruction of the kernel is refused. What of the runtime is
// at work goes on until then.
void Launch::interrupt() {
    interrupted = true;
    failed = true;
    void* const begin = page_of(settings.code_begin);
    mprotect(begin, settings.code_end - uint64_t(begin), PROT_READ);
}

// A worker asks the library for variables, which no kernel does. It takes the right to run away again (Worker::variables).
bool Launch::lets_a_worker_run(uint64_t code) const {
    void* const begin = page_of(settings.code_begin);
    const uint64_t bytes = settings.code_end - uint64_t(begin);
    return interrupted && code - uint64_t(begin) < bytes && !mprotect(begin, bytes, PROT_READ | PROT_EXEC);
}

Interruptible::Interruptible(Launch& launch) {
    if (!launch.settings.code_end || syscall(SYS_gettid) != getpid()) return;
    struct sigaction action = {};
    action.sa_sigaction = on_interrupt;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    if (sigaction(SIGINT, nullptr, &before_interrupt)) return;
    if (before_interrupt.sa_handler == SIG_DFL || before_interrupt.sa_handler == SIG_IGN) return;
    interruptible = &launch;
    installed = !sigaction(SIGINT, &action, nullptr);
    if (!installed) interruptible = nullptr;
}

Interruptible::~Interruptible() {
    if (!installed) return;
    sigaction(SIGINT, &before_interrupt, nullptr);
    Launch& launch = *interruptible;
    interruptible = nullptr;
    void* const begin = page_of(launch.settings.code_begin);
    if (launch.interrupted) mprotect(begin, launch.settings.code_end - uint64_t(begin), PROT_READ | PROT_EXEC);
}

SignalStack::SignalStack() {
    memory = mmap(nullptr, signal_stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const stack_t own = {memory, 0, signal_stack_bytes};
    if (memory != MAP_FAILED) sigaltstack(&own, nullptr);
    sigset_t faults;  // of which the system makes an end where they are blocked
    sigemptyset(&faults);
    for (int signal : signals) sigaddset(&faults, signal);
    pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
}

SignalStack::~SignalStack() {
    const stack_t none = {nullptr, SS_DISABLE, 0};
    sigaltstack(&none, nullptr);
    if (memory != MAP_FAILED) munmap(memory, signal_stack_bytes);
}

}  // namespace kernels

// Once for the process. What is not of a kernel goes to whoever was there before.
extern "C" __attribute__((visibility("default"))) void kernels_catch_faults() {
    struct sigaction action = {};
    action.sa_sigaction = kernels::on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (int i = 0; i < 3; ++i) sigaction(kernels::signals[i], &action, &kernels::before[i]);
}
