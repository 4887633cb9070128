// What a kernel needs of <stdio.h> NVRTC has by itself or prelude.h gives it.
