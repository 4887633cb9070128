"""Wrong ways to mend the detective's kernels, among them what people try first."""

from mutants import Mutant

_INSIDE = "it stays inside its arrays"
_ENDS = "it runs to its end"
_RACE = "no race"
_ORDER = "no race, and nothing read that nobody wrote"

_SMOOTH = (
    ("as it was given", "if (t == 127) s[129]", "if (t == 127) s[128]", _ORDER),
    ("an array too short", "s[130]", "s[129]", _INSIDE),
    ("a halo without its guard", "s[129] = i + 1 < n ? x[i + 1] : 0", "s[129] = x[i + 1]", _INSIDE),
    ("two threads for one element", "if (t == 127) s[129]", "if (t >= 126) s[129]", _ORDER),
    ("no barrier", "__syncthreads();", "", _ORDER),
    ("a barrier of warps only", "__syncthreads();", "__syncwarp();", _ORDER),
    ("a guard that skips the barrier", "__syncthreads();", "if (i < n) __syncthreads();", _ENDS),
    (
        "the edge repeated",
        "s[129] = i + 1 < n ? x[i + 1] : 0",
        "s[129] = x[min(i + 1, n - 1)]",
        "y[i] is the mean of three",
    ),
    ("a guard by repeating", "i < n ? x[i] : 0", "x[min(i, n - 1)]", "also where a block hangs over the end"),
    (
        "neighbours from global memory",
        "(s[t] + s[t + 1] + s[t + 2])",
        "((i > 0 ? x[i - 1] : 0) + s[t + 1] + (i + 1 < n ? x[i + 1] : 0))",
        "x is read about once",
    ),
    ("one more barrier", "    if (t == 0) s[0]", "    __syncthreads();\n    if (t == 0) s[0]", "one barrier a block"),
)

_TREE = """for (int left = blockDim.x; left > 1; left = (left + 1) / 2) {
        int half = (left + 1) / 2;
        if (t + half < left) s[t] += s[t + half];
        __syncthreads();
    }"""
_STEP = "if (t + half < left) s[t] += s[t + half];\n        __syncthreads();"
_ANY_BLOCK = "for a block of any size"

_ROW_TOTAL = (
    (
        "as it was given",
        _TREE,
        "for (int half = blockDim.x / 2; half > 0; half /= 2) { if (t < half) s[t] += s[t + half]; __syncthreads(); }",
        _ANY_BLOCK,
    ),
    ("a partner beyond the end", "t + half < left)", "t < half)", _INSIDE),
    ("a guard one too far", "t + half < left)", "t + half <= left)", _INSIDE),
    (
        "a barrier in the branch",
        _STEP,
        "if (t + half < left) { s[t] += s[t + half]; __syncthreads(); }",
        _ENDS,
    ),
    ("no barrier in the loop", _STEP, "if (t + half < left) s[t] += s[t + half];", _ORDER),
    ("half rounded down: partners overlap", "int half = (left + 1) / 2;", "int half = left / 2;", _ORDER),
    ("the last step missing", "left > 1;", "left > 2;", "y[m] is the sum of row m"),
    ("what is left rounded down", "left = (left + 1) / 2)", "left /= 2)", _ANY_BLOCK),
    (
        "one thread adds all",
        _TREE,
        "if (t == 0) for (int k = 1; k < blockDim.x; ++k) s[0] += s[k];",
        "the threads share the additions",
    ),
    (
        "all add to one",
        _TREE,
        "if (t > 0) atomicAdd(&s[0], s[t]);\n    __syncthreads();",
        "the threads share the additions",
    ),
    ("two barriers a step", _STEP, f"{_STEP} __syncthreads();", "one barrier a step"),
)

_CLEAR = "for (int b = t; b < 256; b += 128) bins[b] = 0;"
_CLEARED = "no bin is counted in before it was cleared"

_HISTOGRAM = (
    ("as it was given", _CLEAR, "if (t < 256) bins[t] = 0;", _CLEARED),
    ("the last bin not cleared", _CLEAR, "for (int b = t; b < 255; b += 128) bins[b] = 0;", _CLEARED),
    ("cleared too far", _CLEAR, "for (int b = t; b <= 256; b += 128) bins[b] = 0;", _INSIDE),
    ("no barrier before the counting", "__syncthreads();\n    for (int i", "for (int i", _RACE),
    ("a barrier of warps only", "__syncthreads();\n    for (int i", "__syncwarp();\n    for (int i", _RACE),
    ("no barrier after the counting", "__syncthreads();\n    for (int b", "for (int b", _RACE),
    ("no atomic", "atomicAdd(&bins[x[i]], 1);", "++bins[x[i]];", _RACE),
    (
        "cleared as it is met",
        _CLEAR,
        "for (int i = blockIdx.x * 128 + t; i < n; i += gridDim.x * 128) bins[x[i]] = 0;",
        _CLEARED,
    ),
    ("spare threads leave", "int t = threadIdx.x;", "int t = threadIdx.x; if (t >= n) return;", _ENDS),
    ("cleared to one", "bins[b] = 0;", "bins[b] = 1;", "counts[block, b] is how often b was met"),
    ("whole strides only", "i < n;", "i < n / 128 * 128;", "also for a few numbers"),
    (
        "one thread clears all",
        _CLEAR,
        "if (t == 0) for (int b = 0; b < 256; ++b) bins[b] = 0;",
        "the threads share the clearing",
    ),
    (
        "a barrier at every clearing",
        _CLEAR,
        "for (int b = t; b < 256; b += 128) { bins[b] = 0; __syncthreads(); }",
        "two barriers a block",
    ),
)

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
    ("threads to spare leave", "float mine", "if (i >= n) return;\n    float mine", _ENDS),
    ("a guard that skips the barrier", _TILE, f"{_ADD}\n        if (first + t < n) __syncthreads();", _ENDS),
    (
        "the point of the first block",
        "i < n ? x[i] : 0",
        "i < n ? x[t] : 0",
        "y[i] is the sum of the distances to all points",
    ),
    ("whole tiles only", "first < n;", "first + 63 < n;", "also where the last tile is not full"),
    (
        "no tile",
        _TILE,
        "sum += fabsf(mine - x[first + j]);\n        __syncthreads();",
        "x still comes by way of the tile",
    ),
    ("a barrier at every element", _TILE, f"{{ {_ADD} __syncthreads(); }}", "at most two barriers a tile"),
)

_SCAN = """for (int apart = 1; apart < 32; apart *= 2) {
        float before = __shfl_up_sync(0xffffffff, sum, apart);
        if (lane >= apart) sum += before;
    }"""
_GIVEN = "no sum is made of what no lane gave"
_RUNNING = "y[i] is the sum of its stretch, from the first element to i"


def _within(mask: str) -> str:
    """The broken loop, with another mask."""
    return f"for (int apart = 1; apart < 32; apart *= 2)\n        if (lane >= apart) sum += __shfl_up_sync({mask}, sum, apart);"


_RUNNING_SUM = (
    ("as it was given", _SCAN, _within("0xffffffff"), _ENDS),
    ("the mask of who is here", _SCAN, _within("__activemask()"), _GIVEN),
    ("the mask of who takes", _SCAN, _within("0xffffffffu << apart"), _GIVEN),
    ("a load without its guard", "i < n ? x[i] : 0", "x[i]", _INSIDE),
    ("a store without its guard", "if (i < n) y[i]", "y[i]", _INSIDE),
    ("every block writes to the first", "y[i] = sum", "y[threadIdx.x] = sum", _ORDER),
    ("lanes without a partner add their own", "if (lane >= apart) sum += before;", "sum += before;", _RUNNING),
    ("a guard one off", "if (lane >= apart) sum += before;", "if (lane > apart) sum += before;", _RUNNING),
    ("a step missing", _SCAN, _SCAN.replace("< 32", "< 16"), _RUNNING),
    ("the lane of the block", "lane = threadIdx.x % 32", "lane = threadIdx.x", _RUNNING),
    ("no result where a stretch is not full", "if (i < n) y[i]", "if (i / 32 < n / 32) y[i]", _GIVEN),
    ("whole stretches only", "i < n ? x[i] : 0", "i / 32 < n / 32 ? x[i] : 0", "also where a stretch is not full"),
    (
        "shared memory in place of shuffles",
        "float before = __shfl_up_sync(0xffffffff, sum, apart);",
        "__shared__ float s[128]; s[threadIdx.x] = sum; __syncwarp();\n"
        "        float before = lane >= apart ? s[threadIdx.x - apart] : 0; __syncwarp();",
        "the sums still go by shuffles",
    ),
    (
        "every lane adds up its own",
        _SCAN,
        "for (int k = 1; k <= lane && i < n; ++k) sum += x[i - k];",
        "x is read once",
    ),
)

_FOUND = "if (__float_as_uint(x[n]) == most) atomicMin(&first, n);"
_SEARCH = f"for (int n = threadIdx.x; n < N; n += 128)\n        {_FOUND}"
_EQUAL = "of equal values, the first"
_LARGEST = "where[m] is the place of the largest value of row m"


def _then(what: str) -> str:
    return f"if (__float_as_uint(x[n]) == most) {what}"


_FIRST_LARGEST = (
    ("as it was given", _FOUND, _then("first = n;"), _ORDER),
    ("look, then write", _FOUND, _then("if (n < first) first = n;"), _ORDER),
    ("look and write, volatile", _FOUND, _then("{ volatile int* f = &first; if (n < *f) *f = n; }"), _ORDER),
    ("an exchange", _FOUND, _then("atomicExch(&first, n);"), _EQUAL),
    ("the first to come", _FOUND, _then("atomicCAS(&first, N, n);"), _EQUAL),
    (
        "the last",
        _SEARCH,
        f"if (threadIdx.x == 0) first = -1;\n    __syncthreads();\n    {_SEARCH.replace('Min', 'Max')}",
        _EQUAL,
    ),
    ("begun at the first place", "first = N;", "first = 0;", _LARGEST),
    ("no barrier before the search", "__syncthreads();\n    // BEGIN", "// BEGIN", _ORDER),
    (
        "no barrier after the search",
        "__syncthreads();\n    if (threadIdx.x == 0) where",
        "if (threadIdx.x == 0) where",
        _ORDER,
    ),
    ("a loop one too long", _SEARCH, _SEARCH.replace("n < N", "n <= N"), _INSIDE),
    ("spare threads leave", "x += blockIdx.x * N;", "x += blockIdx.x * N; if (threadIdx.x >= N) return;", _ENDS),
    ("a barrier for who finds it", _FOUND, _then("{ __syncthreads(); first = n; }"), _ENDS),
    (
        "one thread searches",
        _SEARCH,
        f"if (threadIdx.x == 0)\n    for (int n = N - 1; n >= 0; --n)\n        {_then('first = n;')}",
        "the threads share the row",
    ),
    (
        "turns, by a barrier each",
        _SEARCH,
        "for (int turn = 3; turn >= 0; --turn) {\n    if (threadIdx.x / 32 == turn)\n"
        f"    for (int n = threadIdx.x; n < N; n += 128)\n        {_FOUND}\n    __syncthreads(); }}",
        "at most three barriers a row",
    ),
)

MUTANTS = [
    Mutant(exercise, *mutant)
    for exercise, mutants in (
        ("smooth", _SMOOTH),
        ("row_total", _ROW_TOTAL),
        ("histogram", _HISTOGRAM),
        ("distances", _DISTANCES),
        ("running_sum", _RUNNING_SUM),
        ("first_largest", _FIRST_LARGEST),
    )
    for mutant in mutants
]
