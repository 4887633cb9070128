// What a kernel needs of <cuda_runtime_api.h> is included before it.
#pragma once
