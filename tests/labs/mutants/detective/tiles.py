"""Wrong ways to fix the detective's sum of distances, which reads its points from a tile."""

from mutants import Mutant, with_bits_of_a_half

_INSIDE = "it stays inside its arrays"
_COME = "all threads reach each barrier and shuffle"
_ENDS = "it runs to its end"
_ORDER = "no race, and no uninitialised read"

_TILE = "sum += fabsf(mine - tile[j]);\n        __syncthreads();"
_ADD = "sum += fabsf(mine - tile[j]);"

_DISTANCES = (
    ("as it was given", _TILE, _ADD, _ORDER),
    ("a barrier of warps only", _TILE, f"{_ADD}\n        __syncwarp();", _ORDER),
    ("a fence", _TILE, f"{_ADD}\n        __threadfence_block();", _ORDER),
    (
        "the barrier in the wrong place",
        f"// BEGIN SOLUTION\n        for (int j = 0; j < min(64, n - first); ++j)\n            {_TILE}",
        f"__syncthreads();\n        for (int j = 0; j < min(64, n - first); ++j)\n            {_ADD}",
        _ORDER,
    ),
    (
        "the barrier before the tile is written only",
        "tile[t] = x[first + t];\n        __syncthreads();",
        "tile[t] = x[first + t];",
        _ORDER,
    ),
    (
        "a full tile assumed",
        "x[first + t];\n        __syncthreads();",
        "x[first + t];\n        n = max(n, first + 64);\n        __syncthreads();",
        _INSIDE,
    ),
    ("a load without its guard", "if (first + t < n) tile", "tile", _INSIDE),
    ("a shuffle for some", "float mine", "if (threadIdx.x < 7) __shfl_sync(~0u, 1, 0);\n    float mine", _COME),
    ("threads to spare leave", "float mine", "if (i >= n) return;\n    float mine", _ORDER),
    ("a guard that skips the barrier", _TILE, f"{_ADD}\n        if (first + t < n) __syncthreads();", _COME),
    ("a division by 0", _TILE, _TILE.replace("[j]", "[j % (n / 256)]"), _INSIDE),
    ("a step of nothing", "first += 64", "first += n / 1024", _ENDS),
    (
        "the point of the first block",
        "i < n ? x[i] : 0",
        "i < n ? x[t] : 0",
        "y[i] is the sum of the distances to all points",
    ),
    ("a sum of no value at first", "sum = 0;", "sum;", "no race, and no uninitialised read"),
    (
        "a tile of eighths",
        "tile[t] = x[first + t];",
        "tile[t] = rintf(8 * x[first + t]) / 8;",
        "y[i] is the sum of the distances to all points",
    ),
    (
        "a tile of 16 bits",
        "tile[t] = x[first + t];",
        f"tile[t] = {with_bits_of_a_half('x[first + t]')};",
        "y[i] is the sum of the distances to all points",
    ),
    (
        "the root of a square",
        _TILE,
        _TILE.replace("fabsf(mine - tile[j])", "sqrtf((mine - tile[j]) * (mine - tile[j]))"),
        "y[i] is the sum of the distances to all points",
    ),
    (
        "a tile of elements far apart",
        "__shared__ float tile[64];",
        """struct Far {
        float at, rest[31];
        __device__ void operator=(float value) { at = value; }
        __device__ operator float() const { return at; }
    };
    __shared__ Far tile[64];""",
        "no bank conflicts in the tile",
    ),
    ("whole tiles only", "first < n;", "first + 63 < n;", "also where the last tile is not full"),
    (
        "no tile",
        _TILE,
        "sum += fabsf(mine - x[first + j]);\n        __syncthreads();",
        "x still goes through the tile",
    ),
    ("a tile read by atomics", _TILE, _TILE.replace("tile[j]", "atomicAdd(&tile[j], 0.0f)"), "no atomics"),
    ("a barrier at every element", _TILE, f"{{ {_ADD} __syncthreads(); }}", "at most two barriers a tile"),
    (
        "all points in one tile, of 4,096",
        "sum = 0;",
        """sum = 0;
    __shared__ float all[4096];
    for (int j = t; j < n; j += 64) all[j] = x[j];
    __syncthreads();
    for (int j = 0; j < n; ++j) sum += fabsf(mine - all[j]);
    if (i < n) y[i] = sum;
    return;""",
        _ENDS,
    ),
    (
        "zeros added, and subtracted again",
        "if (first + t < n) tile[t] = x[first + t];\n        __syncthreads();\n        // BEGIN SOLUTION\n"
        "        for (int j = 0; j < min(64, n - first); ++j)",
        "tile[t] = first + t < n ? x[first + t] : 0;\n        __syncthreads();\n"
        "        if (first + 64 > n) sum -= (first + 64 - n) * fabsf(mine);\n        for (int j = 0; j < 64; ++j)",
        "also where the last tile is not full",
    ),
    (
        "the first 4,096 points",
        "first < n;",
        "first < min(n, 4096);",
        "also for 4,160 points",
    ),
)

MUTANTS = [Mutant("distances", *mutant) for mutant in _DISTANCES]
