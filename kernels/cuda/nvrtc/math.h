// What a kernel needs of <math.h> NVRTC has by itself or prelude.h gives it.
