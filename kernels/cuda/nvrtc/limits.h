// What a kernel needs of <limits.h> NVRTC has by itself or prelude.h gives it.
