// Where a kernel's library has its thread-local memory, which is its static shared memory, and how to move it. For the runtime
// and the lens.
#pragma once
#include <link.h>
#include <stdint.h>
#include <string.h>

// The dynamic linker's, which code calls for an address. It keeps for each OS thread a table of where libraries have their
// memory, and looks there whenever it is asked.
struct Asked {
    unsigned long library, offset;
};
extern "C" void* __tls_get_addr(Asked*);

namespace kernels {

struct ThreadLocal {
    uint64_t begin = 0, bytes = 0, alignment = 1;
    bool moved = false;
};

namespace thread_local_memory {

struct Entry {
    void* memory;
    void* to_free;
};

// As glibc has it; entry 0 is something else.
inline Entry* table() {
    Entry** thread_pointer = nullptr;
#if defined(__x86_64__)
    asm("mov %%fs:0, %0" : "=r"(thread_pointer));
    return thread_pointer[1];
#elif defined(__aarch64__)
    asm("mrs %0, tpidr_el0" : "=r"(thread_pointer));
    return thread_pointer[0];
#else
    return nullptr;
#endif
}

struct Search {
    uint64_t address;  // in the library
    unsigned long library;
    uint64_t bytes, alignment;
};

inline int look(dl_phdr_info* info, size_t, void* data) {
    Search& search = *static_cast<Search*>(data);
    uint64_t bytes = 0, alignment = 1;
    bool here = false;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr)& part = info->dlpi_phdr[i];
        if (part.p_type == PT_TLS) bytes = part.p_memsz, alignment = part.p_align;
        if (part.p_type == PT_LOAD && search.address - (info->dlpi_addr + part.p_vaddr) < part.p_memsz) here = true;
    }
    if (here) search.library = info->dlpi_tls_modid, search.bytes = bytes, search.alignment = alignment;
    return here;
}

inline Search search_for(const void* function) {
    Search search = {reinterpret_cast<uint64_t>(function), 0, 0, 1};
    dl_iterate_phdr(look, &search);
    return search;
}

}  // namespace thread_local_memory

// What the library that `function` is in has on this OS thread.
inline ThreadLocal thread_local_of(const void* function) {
    const auto search = thread_local_memory::search_for(function);
    if (!search.bytes) return {};
    Asked start = {search.library, 0};
    return {reinterpret_cast<uint64_t>(__tls_get_addr(&start)), search.bytes, search.alignment, false};
}

// Moves it to `to`, where no one else's memory is around it. It stays where it is if `to` is 0 or the dynamic linker is not
// one that we know.
inline ThreadLocal move_thread_local(const void* function, uint64_t to) {
    const auto search = thread_local_memory::search_for(function);
    if (!search.bytes) return {};
    Asked start = {search.library, 0};
    void* const memory = __tls_get_addr(&start);
    const ThreadLocal found = {reinterpret_cast<uint64_t>(memory), search.bytes, search.alignment, false};
    thread_local_memory::Entry* const entries = thread_local_memory::table();
    if (!to || !entries || entries[search.library].memory != memory) return found;
    void* const moved = reinterpret_cast<void*>(to);
    memcpy(moved, memory, search.bytes);
    entries[search.library].memory = moved;
    if (__tls_get_addr(&start) == moved) return {to, search.bytes, search.alignment, true};
    entries[search.library].memory = memory;
    return found;
}

}  // namespace kernels
