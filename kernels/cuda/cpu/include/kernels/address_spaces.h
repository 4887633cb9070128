// Which memory an address is in (CUDA C++ Programming Guide, "Address Space Predicate Functions"), and hints to a GPU's
// compiler. There is no __isConstant: constant memory is global memory here.
#pragma once

inline unsigned __isShared(const void* address) {
    return kernels::self.runtime->services->space(address) == kernels::Space::shared;
}
inline unsigned __isLocal(const void* address) {
    return kernels::self.runtime->services->space(address) == kernels::Space::local;
}
inline unsigned __isGlobal(const void* address) {
    return kernels::self.runtime->services->space(address) == kernels::Space::global;
}

#ifndef __clang__
#define __builtin_assume(...) ((void)0)
#endif
#define __prof_trigger(...) ((void)0)
