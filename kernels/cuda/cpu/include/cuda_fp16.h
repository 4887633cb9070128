// NVIDIA's header computes half precision on a host; these are the functions it has for a GPU alone.
#pragma once
#include "kernels/host_begin.h"
#include_next <cuda_fp16.h>
#include "kernels/host_end.h"
#include "kernels/half_functions.h"

KERNELS_HALF_FUNCTIONS(__half, __half2, __double2half)
KERNELS_HALF_CONVERSIONS(__half, half)
