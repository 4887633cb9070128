// What a kernel needs of <time.h> NVRTC has by itself or prelude.h gives it.
