// What a kernel needs of <device_launch_parameters.h> NVRTC has by itself or prelude.h gives it.
