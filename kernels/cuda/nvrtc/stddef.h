// What a kernel needs of <stddef.h> NVRTC has by itself or prelude.h gives it.
