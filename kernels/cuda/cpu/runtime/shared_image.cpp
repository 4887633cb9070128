#include "shared_image.h"

#include <link.h>
#include <string.h>

namespace kernels {

namespace {

struct Search {
    uintptr_t address;  // in the library
    SharedImage found;
};

int look(dl_phdr_info* library, size_t, void* data) {
    Search& search = *static_cast<Search*>(data);
    const ElfW(Phdr)* thread_local_part = nullptr;
    bool here = false;
    for (int i = 0; i < library->dlpi_phnum; ++i) {
        const ElfW(Phdr)& part = library->dlpi_phdr[i];
        if (part.p_type == PT_TLS) thread_local_part = &part;
        if (part.p_type == PT_LOAD && search.address - (library->dlpi_addr + part.p_vaddr) < part.p_memsz) here = true;
    }
    if (!here) return 0;
    if (thread_local_part)
        search.found = {search.found.variables, static_cast<char*>(library->dlpi_tls_data), thread_local_part->p_memsz,
                        reinterpret_cast<const char*>(library->dlpi_addr + thread_local_part->p_vaddr),
                        thread_local_part->p_filesz};
    return 1;
}

}  // namespace

// From the first access to its variables on, this OS thread has the memory.
SharedImage SharedImage::of(const Kernel& kernel, Thread* variables) {
    Search search = {reinterpret_cast<uintptr_t>(kernel.function), {variables}};
    dl_iterate_phdr(look, &search);
    return search.found;
}

void SharedImage::save(std::vector<char>& to) const {
    to.assign(data, data + bytes);
    const char* own = reinterpret_cast<const char*>(variables);
    to.insert(to.end(), own, own + sizeof(Thread));
}

void SharedImage::restore(const std::vector<char>& from) const {
    memcpy(data, from.data(), bytes);
    memcpy(variables, from.data() + bytes, sizeof(Thread));
}

void SharedImage::reset() const {
    // Moved between its guards once: a fiber that was begun before a second move would go on in the memory it left.
    const bool guarded = variables->guarded;
    memcpy(data, initial, initial_bytes);
    memset(data + initial_bytes, 0, bytes - initial_bytes);
    variables->guarded = guarded;
}

}  // namespace kernels
