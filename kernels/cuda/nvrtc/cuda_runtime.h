// What a kernel needs of <cuda_runtime.h> NVRTC has by itself or prelude.h gives it.
