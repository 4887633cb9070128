// What a kernel needs of <stdint.h> NVRTC has by itself or prelude.h gives it.
