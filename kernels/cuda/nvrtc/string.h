// What a kernel needs of <string.h> NVRTC has by itself or prelude.h gives it.
