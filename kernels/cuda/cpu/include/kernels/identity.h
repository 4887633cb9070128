// The source is compiled as a GPU's compiler would see it: sm_90, by NVRTC. NVIDIA's headers are not (kernels/host_begin.h).
#pragma once

#define __CUDACC__
#define __CUDACC_RTC__
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __CUDA_ARCH__ 900
#define __CUDA_ARCH_LIST__ 900
// Our own sources say by it what they have for a GPU alone.
#define KERNELS_ON_CPU
