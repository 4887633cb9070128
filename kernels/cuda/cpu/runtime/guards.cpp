#include "guards.h"

#include <string.h>
#include <sys/mman.h>

namespace kernels {

namespace {

// As guards.py has them.
constexpr size_t most_bytes = 1 << 20, most_storages = 16;
constexpr size_t tensor_guard_bytes = 64 << 20;
// A copy ends where the guard begins, but for what makes its beginning one of these. Before it some memory is looked at.
constexpr size_t alignment = 16, looked_at = 256;
constexpr size_t slot_bytes = tensor_guard_bytes + most_bytes + looked_at * 16;
constexpr char unused = char(0xff);  // a NaN of every floating type

// Places for copies, one after another, each between guards. Kept by the OS thread that launches.
struct Slots {
    char* memory = nullptr;
    char* begins[most_storages];

    ~Slots() {
        if (memory) munmap(memory, most_storages * slot_bytes + tensor_guard_bytes);
    }

    bool made() {
        if (memory) return true;
        void* const mapped = mmap(nullptr, most_storages * slot_bytes + tensor_guard_bytes, PROT_NONE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapped == MAP_FAILED) return false;
        memory = static_cast<char*>(mapped);
        for (size_t i = 0; i < most_storages; ++i)
            mprotect(memory + i * slot_bytes + tensor_guard_bytes, slot_bytes - tensor_guard_bytes, PROT_READ | PROT_WRITE);
        return true;
    }

    char* place(uint32_t number, size_t bytes) {
        return begins[number] = memory + (number + 1) * slot_bytes - ((bytes + alignment - 1) & ~(alignment - 1));
    }
};

thread_local Slots slots_of_thread;

size_t behind(const Guarded& tensor) { return -tensor.bytes & (alignment - 1); }

bool all_unused(const char* begin, size_t bytes, int64_t& first) {
    for (size_t i = 0; i < bytes; ++i)
        if (begin[i] != unused) return first = int64_t(i), false;
    return true;
}

}  // namespace

const char* Guards::copied(const Guarded* given, uint32_t number_given, const char* packed, size_t bytes) {
    if (!number_given || !slots_of_thread.made()) return packed;
    tensors = given;
    count = number_given;
    slots = slots_of_thread.begins;
    args.assign(packed, packed + bytes);
    uint32_t made = 0;
    for (const Guarded* one = tensors; one < tensors + count; ++one) {
        if (one->number == made) {
            char* const copy = slots_of_thread.place(made++, one->bytes);
            memset(copy - looked_at, unused, looked_at);
            memcpy(copy, reinterpret_cast<const void*>(one->storage), one->bytes);
            memset(copy + one->bytes, unused, behind(*one));
        }
        uint64_t pointer;
        memcpy(&pointer, &args[one->argument], sizeof pointer);
        pointer += uint64_t(slots[one->number]) - one->storage;
        memcpy(&args[one->argument], &pointer, sizeof pointer);
    }
    return args.data();
}

void Guards::put_back(Fault& seen) {
    uint32_t made = 0;
    for (const Guarded* one = tensors; one < tensors + count; ++one) {
        if (one->number != made) continue;
        char* const copy = slots[made++];
        void* const storage = reinterpret_cast<void*>(one->storage);
        // What is not written to may be memory that no one may write to.
        if (memcmp(storage, copy, one->bytes)) memcpy(storage, copy, one->bytes);
        int64_t at;
        const bool before = !all_unused(copy - looked_at, looked_at, at);
        if (before) at -= int64_t(looked_at);
        const bool after = !before && !all_unused(copy + one->bytes, behind(*one), at);
        if (after) at += int64_t(one->bytes);
        if ((!before && !after) || seen.kind != Fault::none) continue;
        seen.kind = Fault::tensor;
        seen.writes = seen.after = 1;
        seen.argument = one->argument;
        seen.offset = at;
    }
}

const Guarded* Guards::near(const void* address) const {
    for (const Guarded* one = tensors; one < tensors + count; ++one) {
        const uint64_t begin = uint64_t(slots[one->number]);
        if (uint64_t(address) - (begin - tensor_guard_bytes / 2) < one->bytes + tensor_guard_bytes) return one;
    }
    return nullptr;
}

const char* Guards::copy_of(const Guarded& tensor) const { return slots[tensor.number]; }

}  // namespace kernels
