// What a kernel needs of <stdlib.h> NVRTC has by itself or prelude.h gives it.
