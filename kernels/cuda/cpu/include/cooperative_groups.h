// Cooperative groups (CUDA C++ Programming Guide, "Cooperative Groups"): blocks, tiles, coalesced threads and the grid.
#pragma once
#include "kernels/groups/block.h"
#include "kernels/groups/lanes.h"
#include "kernels/groups/tiles.h"
#include "kernels/groups/grid.h"
#include "kernels/groups/partition.h"
