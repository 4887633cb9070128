// What a kernel needs of <float.h> NVRTC has by itself or prelude.h gives it.
