// What a kernel needs of <stdbool.h> NVRTC has by itself or prelude.h gives it.
