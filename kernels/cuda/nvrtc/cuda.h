// What a kernel needs of <cuda.h> NVRTC has by itself or prelude.h gives it.
