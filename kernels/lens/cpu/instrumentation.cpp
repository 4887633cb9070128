// What the compiler's instrumentation calls before every access, at every basic block, and in place of atomics
// (-fsanitize=thread, -fsanitize-coverage=trace-pc, -fsanitize=bounds), recorded here instead of by the sanitizers.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "recorder.h"

#define PROBE extern "C" __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)

// The built-in variables of the library that is traced.
namespace kernels {
__attribute__((visibility("default"))) Thread self = {};
extern "C" __attribute__((visibility("default"), alias("_ZN7kernels4selfE"))) const uint3 kernels_built_in[4];
static_assert(offsetof(Thread, grid_dim) == 3 * sizeof(uint3), "kernels_built_in is the first members of Thread");
}

using kernels::lens::Kind;
using kernels::lens::recorder;
using kernels::lens::Scope;

#define ACCESS(NAME, KIND, SIZE, HOW) \
    PROBE void __tsan_##NAME##SIZE(void* address) { recorder.record(Kind::KIND, address, SIZE, CALLER, HOW); }
#define ACCESSES(NAME, KIND, HOW)                                                                \
    ACCESS(NAME, KIND, 1, HOW) ACCESS(NAME, KIND, 2, HOW) ACCESS(NAME, KIND, 4, HOW)             \
    ACCESS(NAME, KIND, 8, HOW) ACCESS(NAME, KIND, 16, HOW)
ACCESSES(read, read, 0)
ACCESSES(write, write, 0)
ACCESSES(unaligned_read, read, kernels::lens::may_be_misaligned)
ACCESSES(unaligned_write, write, kernels::lens::may_be_misaligned)
ACCESSES(volatile_read, read, kernels::lens::is_volatile)
ACCESSES(volatile_write, write, kernels::lens::is_volatile)
ACCESSES(unaligned_volatile_read, read, kernels::lens::is_volatile | kernels::lens::may_be_misaligned)
ACCESSES(unaligned_volatile_write, write, kernels::lens::is_volatile | kernels::lens::may_be_misaligned)

// A structure whose alignment is less than its size: a GPU accesses it by parts of its alignment. It is not reported, so it
// is taken from where the structure lies: 4 bytes at most. `whole`: it may be a vector of 8 or 16 bytes.
static void record_range(Kind kind, char* address, size_t bytes, const void* caller, bool whole = false) {
    if (recorder.self->starting || recorder.on_stack(address)) return;
    size_t part = whole && (bytes == 8 || bytes == 16) && reinterpret_cast<size_t>(address) % bytes == 0 ? bytes : 1;
    while (part < 4 && !((bytes | reinterpret_cast<size_t>(address)) & part)) part *= 2;
    for (size_t at = 0; at < bytes; at += part) recorder.record(kind, address + at, uint32_t(part), caller);
}
PROBE void __tsan_read_range(void* address, size_t bytes) {
    record_range(Kind::read, static_cast<char*>(address), bytes, CALLER);
}
PROBE void __tsan_write_range(void* address, size_t bytes) {
    record_range(Kind::write, static_cast<char*>(address), bytes, CALLER);
}

PROBE void __sanitizer_cov_trace_pc() { recorder.branch(CALLER); }

PROBE void __tsan_init() {}
PROBE void __tsan_func_entry(void*) {}
PROBE void __tsan_func_exit() {}
PROBE void __tsan_vptr_update(void**, void*) {}
PROBE void __tsan_vptr_read(void**) {}

// Atomics are made to be sequentially consistent: their order is that of the run, whatever they ask for.
static uint32_t released(int order) { return order >= __ATOMIC_RELEASE ? kernels::lens::is_release : 0; }
static uint32_t compared(int order) {
    const uint32_t how = released(order) | (recorder.guess.overwrites ? kernels::lens::overwrites : 0);
    recorder.guess.overwrites = false;
    return how;
}
#define FETCH(BITS, NAME, OPERATION, HOW)                                                                      \
    PROBE uint##BITS##_t __tsan_atomic##BITS##_##NAME(volatile uint##BITS##_t* address, uint##BITS##_t value, int order) { \
        recorder.record(Kind::atomic, (void*)address, BITS / 8, CALLER, released(order) | HOW);                \
        return OPERATION(address, value, __ATOMIC_SEQ_CST);                                                    \
    }
#define COMPARE(BITS, NAME)                                                                                    \
    PROBE int __tsan_atomic##BITS##_##NAME(volatile uint##BITS##_t* address, uint##BITS##_t* expected,         \
                                           uint##BITS##_t value, int order, int) {                             \
        recorder.record(Kind::atomic, (void*)address, BITS / 8, CALLER, compared(order));                      \
        return __atomic_compare_exchange_n(address, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
    }
#define ATOMICS(BITS)                                                                                          \
    PROBE uint##BITS##_t __tsan_atomic##BITS##_load(const volatile uint##BITS##_t* address, int order) {       \
        recorder.record(Kind::atomic_read, (void*)address, BITS / 8, CALLER, released(order));                 \
        return __atomic_load_n(address, __ATOMIC_SEQ_CST);                                                     \
    }                                                                                                          \
    PROBE void __tsan_atomic##BITS##_store(volatile uint##BITS##_t* address, uint##BITS##_t value, int order) { \
        recorder.record(Kind::atomic_write, (void*)address, BITS / 8, CALLER, released(order));                \
        __atomic_store_n(address, value, __ATOMIC_SEQ_CST);                                                    \
    }                                                                                                          \
    PROBE uint##BITS##_t __tsan_atomic##BITS##_compare_exchange_val(volatile uint##BITS##_t* address,          \
                                                                    uint##BITS##_t expected, uint##BITS##_t value, \
                                                                    int order, int) {                          \
        recorder.record(Kind::atomic, (void*)address, BITS / 8, CALLER, compared(order));                      \
        __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);     \
        return expected;                                                                                       \
    }                                                                                                          \
    COMPARE(BITS, compare_exchange_strong)                                                                     \
    COMPARE(BITS, compare_exchange_weak)                                                                       \
    FETCH(BITS, exchange, __atomic_exchange_n, kernels::lens::overwrites)                                      \
    FETCH(BITS, fetch_add, __atomic_fetch_add, kernels::lens::overwrites)                                      \
    FETCH(BITS, fetch_sub, __atomic_fetch_sub, kernels::lens::overwrites)                                      \
    FETCH(BITS, fetch_and, __atomic_fetch_and, 0)                                                              \
    FETCH(BITS, fetch_or, __atomic_fetch_or, 0)                                                                \
    FETCH(BITS, fetch_xor, __atomic_fetch_xor, kernels::lens::overwrites)                                      \
    FETCH(BITS, fetch_nand, __atomic_fetch_nand, kernels::lens::overwrites)
ATOMICS(8)
ATOMICS(16)
ATOMICS(32)
ATOMICS(64)

PROBE void __tsan_atomic_thread_fence(int) {
    recorder.append(Kind::fence, 0, CALLER, uint32_t(Scope::device));
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
PROBE void __tsan_atomic_signal_fence(int) {
    recorder.append(Kind::fence, 0, CALLER, uint32_t(Scope::block));
}

// What an atomic made of compare and swap reads first (kernels/atomics.h): no access, unless there is no memory.
PROBE uint64_t kernels_lens_guess(const void* word, uint32_t bytes, bool overwrites) {
    recorder.guess = {word, bytes, CALLER, overwrites};
    uint64_t value = 0;
    memcpy(&value, word, bytes);
    recorder.guess.bytes = 0;
    return value;
}

// Copies whose size the compiler does not know; clang also copies structures by these, under either name.
#define COPY(NAME, FUNCTION)                                                                    \
    PROBE void* NAME(void* to, const void* from, size_t bytes) {                                \
        record_range(Kind::read, (char*)from, bytes, CALLER, true);                             \
        record_range(Kind::write, (char*)to, bytes, CALLER, true);                              \
        return FUNCTION(to, from, bytes);                                                       \
    }
#define FILL(NAME)                                                                              \
    PROBE void* NAME(void* to, int value, size_t bytes) {                                       \
        record_range(Kind::write, (char*)to, bytes, CALLER, true);                              \
        return memset(to, value, bytes);                                                        \
    }
COPY(__tsan_memcpy, memcpy)
COPY(__wrap_memcpy, memcpy)
COPY(__tsan_memmove, memmove)
COPY(__wrap_memmove, memmove)
FILL(__tsan_memset)
FILL(__wrap_memset)

// A copy of a structure by clang (kernels/lens/cuda/clang_accesses.py). An end that is aligned to the size is one access, and
// the processor refuses 16 bytes where they turn out not to be aligned.
static bool whole(uint64_t bytes, uint32_t align) { return bytes <= align && bytes <= 16 && !(bytes & (bytes - 1)); }
static void record_end(Kind kind, void* address, uint64_t bytes, bool whole, const void* caller) {
    if (whole) recorder.record(kind, address, uint32_t(bytes), caller);
    else record_range(kind, static_cast<char*>(address), bytes, caller);
}
static void move(void* to, const void* from, uint64_t bytes, bool whole) {
    typedef int Vector __attribute__((vector_size(16), may_alias));
    if (whole && bytes == 16) *static_cast<Vector*>(to) = *static_cast<const Vector*>(from);
    else memcpy(to, from, bytes);
}
PROBE void kernels_lens_copy(void* to, void* from, uint64_t bytes, uint32_t to_align, uint32_t from_align) {
    void* value = __builtin_alloca_with_align(bytes, 128);
    record_end(Kind::read, from, bytes, whole(bytes, from_align), CALLER);
    move(value, from, bytes, whole(bytes, from_align));
    record_end(Kind::write, to, bytes, whole(bytes, to_align), CALLER);
    move(to, value, bytes, whole(bytes, to_align));
}

// What is known of the array, as the compiler lays it out: "float [32]" and the index's type.
struct TypeDescriptor {
    uint16_t kind, about;  // of an integer, `about` is twice the logarithm of its bits, plus 1 if it is signed
    char name[];
};
struct OutOfBounds {
    const char* file;
    uint32_t line, column;
    const TypeDescriptor *array, *index;
};

// The index comes as it is if it fits into 8 bytes, else by address.
PROBE void __ubsan_handle_out_of_bounds(const OutOfBounds* what, void* index) {
    int64_t value = reinterpret_cast<int64_t>(index);
    const uint32_t bits = 1u << (what->index->about >> 1);
    if (what->index->about & 1 && bits < 64) value = int64_t(uint64_t(value) << (64 - bits)) >> (64 - bits);
    const char* bracket = strchr(what->array->name, '[');
    const long length = bracket ? strtol(bracket + 1, nullptr, 10) : 0;
    recorder.out_of_array(value, uint32_t(length), CALLER);
}
