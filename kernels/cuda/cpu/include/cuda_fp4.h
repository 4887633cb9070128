// NVIDIA's header computes 4-bit floating point on a host.
#pragma once
#include <cuda_fp8.h>
#include "kernels/host_begin.h"
#include_next <cuda_fp4.h>
#include "kernels/host_end.h"
