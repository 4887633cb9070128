// Loads and stores with cache hints (CUDA C++ Programming Guide, "Load/Store Functions Using Cache Hints"). A hint changes
// no value, so here each is a plain access.
#pragma once

namespace kernels {
template <class T> struct Same { using type = T; };  // keeps the stored value from deciding the type
}  // namespace kernels

#define KERNELS_LOAD(NAME) \
    template <class T> inline T NAME(const T* address) { return *address; }
#define KERNELS_STORE(NAME) \
    template <class T> inline void NAME(T* address, typename kernels::Same<T>::type value) { *address = value; }
KERNELS_LOAD(__ldg)
KERNELS_LOAD(__ldca)
KERNELS_LOAD(__ldcg)
KERNELS_LOAD(__ldcs)
KERNELS_LOAD(__ldlu)
KERNELS_LOAD(__ldcv)
KERNELS_STORE(__stwb)
KERNELS_STORE(__stcg)
KERNELS_STORE(__stcs)
KERNELS_STORE(__stwt)
#undef KERNELS_LOAD
#undef KERNELS_STORE
