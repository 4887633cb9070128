// NVIDIA's header computes 8-bit floating point on a host.
#pragma once
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include "kernels/host_begin.h"
#include_next <cuda_fp8.h>
#include "kernels/host_end.h"
