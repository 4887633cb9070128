// After one of NVIDIA's headers.
#pragma pop_macro("__CUDACC__")
#pragma pop_macro("__CUDACC_RTC__")
#pragma pop_macro("__CUDA_ARCH__")
