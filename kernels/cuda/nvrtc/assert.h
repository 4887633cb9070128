// What a kernel needs of <assert.h> NVRTC has by itself or prelude.h gives it.
