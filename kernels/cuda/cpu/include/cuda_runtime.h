// What a kernel needs of <cuda_runtime.h> is included before it.
#pragma once
