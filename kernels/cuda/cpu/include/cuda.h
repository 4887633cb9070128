// What a kernel needs of <cuda.h> is included before it.
#pragma once
