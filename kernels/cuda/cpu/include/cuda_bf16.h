// NVIDIA's header computes bfloat16 on a host; these are the functions it has for a GPU alone.
#pragma once
#include_next <cuda_bf16.h>
#include "kernels/half_functions.h"

KERNELS_HALF_FUNCTIONS(__nv_bfloat16, __nv_bfloat162, __double2bfloat16)
