// What a kernel needs of <device_launch_parameters.h> is included before it.
#pragma once
