// What a kernel needs of <cuda_runtime_api.h> NVRTC has by itself or prelude.h gives it.
