// Before one of NVIDIA's headers: what it has for a host is wanted, not its inline PTX. kernels/host_end.h undoes this.
#pragma push_macro("__CUDACC__")
#pragma push_macro("__CUDACC_RTC__")
#pragma push_macro("__CUDA_ARCH__")
#undef __CUDACC__
#undef __CUDACC_RTC__
#undef __CUDA_ARCH__
