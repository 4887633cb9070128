// __pipeline_memcpy_async and its kin.
#pragma once
#include "cuda_pipeline_primitives.h"
