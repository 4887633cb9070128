// Included before every kernel: CUDA C++ as g++ and clang can compile it.
#pragma once
#include "kernels/free_names.h"
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <new>
#include <type_traits>
#include <utility>
#include "kernels/names_again.h"

#include "vector_types.h"
#include "vector_functions.h"

#include "kernels/abi.h"
#include "kernels/qualifiers.h"
#include "kernels/thread.h"
#include "kernels/bits.h"
#include "kernels/warp.h"
#include "kernels/atomics.h"
#include "kernels/cache_hints.h"
#include "kernels/integers.h"
#include "kernels/simd.h"
#include "kernels/rounding.h"
#include "kernels/conversions.h"
#include "kernels/maths.h"
#include "kernels/output.h"
#include "kernels/address_spaces.h"
#include "kernels/entry.h"
#include "kernels/identity.h"
#include "kernels/seen_copies.h"
