// Included before every kernel: CUDA C++ as g++ and clang can compile it.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <type_traits>
#include <utility>

#include "vector_types.h"
#include "vector_functions.h"

#include "kernels/abi.h"
#include "kernels/qualifiers.h"
#include "kernels/thread.h"
#include "kernels/warp.h"
#include "kernels/atomics.h"
#include "kernels/intrinsics.h"
#include "kernels/maths.h"
#include "kernels/entry.h"
