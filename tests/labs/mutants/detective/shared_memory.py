"""Wrong ways to fix the detective's kernels that pass values on in shared memory, among them what people try first."""

from mutants import Mutant

_INSIDE = "it stays inside its arrays"
_COME = "all threads reach each barrier and shuffle"
_ENDS = "it runs to its end"
_RACE = "no race"
_ORDER = "no race, and no uninitialised read"

_SMOOTH = (
    ("as it was given", "if (t == 127) s[129]", "if (t == 127) s[128]", _ORDER),
    ("an array too short", "s[130]", "s[129]", _INSIDE),
    ("a halo without its guard", "s[129] = i + 1 < n ? x[i + 1] : 0", "s[129] = x[i + 1]", _INSIDE),
    ("two threads for one element", "if (t == 127) s[129]", "if (t >= 126) s[129]", _ORDER),
    ("no barrier", "__syncthreads();", "", _ORDER),
    ("a barrier of warps only", "__syncthreads();", "__syncwarp();", _ORDER),
    ("a guard that skips the barrier", "__syncthreads();", "if (i < n) __syncthreads();", _COME),
    (
        "a division by 0",
        "blockIdx.x * 128 + t;",
        "(blockIdx.x * 128 + t) % (n / 512 * n);",
        _INSIDE,
    ),
    ("a trap left in", "blockIdx.x * 128 + t;", "blockIdx.x * 128 + t; if (n % 128) __trap();", _ENDS),
    (
        "the edge repeated",
        "s[129] = i + 1 < n ? x[i + 1] : 0",
        "s[129] = x[min(i + 1, n - 1)]",
        "y[i] is the mean of three",
    ),
    ("a guard by repeating", "i < n ? x[i] : 0", "x[min(i, n - 1)]", "also where a block extends past the end"),
    (
        "sums by atomics",
        "y[i] = (s[t] + s[t + 1] + s[t + 2]) / 3;",
        "{ y[i] = s[t]; atomicAdd(&y[i], s[t + 1]); atomicAdd(&y[i], s[t + 2]); y[i] /= 3; }",
        "no atomics",
    ),
    (
        "neighbours from global memory",
        "(s[t] + s[t + 1] + s[t + 2])",
        "((i > 0 ? x[i - 1] : 0) + s[t + 1] + (i + 1 < n ? x[i + 1] : 0))",
        "x is read about once",
    ),
    (
        "times 0 or 1",
        "s[129] = i + 1 < n ? x[i + 1] : 0",
        "s[129] = x[min(i + 1, n - 1)] * (i + 1 < n)",
        "y[i] is the mean of three",
    ),
    ("places as floats", "i = blockIdx.x * 128 + t", "i = blockIdx.x * 128.0f + t", "also for millions of elements"),
    (
        "a guard that skips the barrier, after a return",
        "__syncthreads();",
        "if (blockIdx.x * 128 >= n) return;\n    if (i < n) __syncthreads();",
        _COME,
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
        _COME,
    ),
    ("no barrier in the loop", _STEP, "if (t + half < left) s[t] += s[t + half];", _ORDER),
    ("half rounded down: partners overlap", "int half = (left + 1) / 2;", "int half = left / 2;", _ORDER),
    (
        "a division by 0",
        "int half = (left + 1) / 2;",
        "int half = left / (blockDim.x / 256);",
        _INSIDE,
    ),
    ("a loop that is at its end and goes on", "left > 1;", "left > 0;", _ENDS),
    ("128 threads at most", "left = blockDim.x;", "left = min(blockDim.x, 128);", _ANY_BLOCK),
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
    (
        "all add to y",
        _TREE,
        "if (t == 0) y[blockIdx.x] = 0;\n    __syncthreads();\n    atomicAdd(&y[blockIdx.x], s[t]);\n    return;",
        "the threads share the additions",
    ),
    (
        "a tree for 512 threads",
        _TREE,
        "for (int half = 256; half > 0; half /= 2) {\n"
        "        if (t < half && t + half < blockDim.x) s[t] += s[t + half];\n        __syncthreads();\n    }",
        _ANY_BLOCK,
    ),
    (
        "times 0 or 1",
        "if (t + half < left) s[t] += s[t + half];",
        "if (t < half) s[t] += s[min(t + half, left - 1)] * (t + half < left);",
        _ANY_BLOCK,
    ),
    (
        "a row's place in an int",
        "x[blockIdx.x * blockDim.x + t]",
        "x[(int)(blockIdx.x * blockDim.x) + t]",
        "also for millions of rows",
    ),
    (
        "one thread adds all that no halving is left for",
        _TREE,
        "int left = blockDim.x;\n    for (; left % 2 == 0; left /= 2) {\n"
        "        if (t < left / 2) s[t] += s[t + left / 2];\n        __syncthreads();\n    }\n"
        "    if (t == 0) for (int k = 1; k < left; ++k) s[0] += s[k];",
        "the threads share the additions",
    ),
    ("two barriers a step", _STEP, f"{_STEP} __syncthreads();", "one barrier a step"),
)

_CLEAR = "for (int b = t; b < 256; b += 128) bins[b] = 0;"
_CLEARED = "no bin is used before it is cleared"

_HISTOGRAM = (
    ("as it was given", _CLEAR, "if (t < 256) bins[t] = 0;", _CLEARED),
    ("the last bin not cleared", _CLEAR, "for (int b = t; b < 255; b += 128) bins[b] = 0;", _CLEARED),
    ("cleared too far", _CLEAR, "for (int b = t; b <= 256; b += 128) bins[b] = 0;", _INSIDE),
    ("no barrier before the counting", "__syncthreads();\n    for (int i", "for (int i", _RACE),
    ("a barrier of warps only", "__syncthreads();\n    for (int i", "__syncwarp();\n    for (int i", _RACE),
    ("no barrier after the counting", "__syncthreads();\n    for (int b", "for (int b", _RACE),
    ("no atomic", "atomicAdd(&bins[x[i]], 1);", "++bins[x[i]];", _RACE),
    ("an exchange", "atomicAdd(&bins[x[i]], 1);", "atomicExch(&bins[x[i]], bins[x[i]] + 1);", _RACE),
    (
        "cleared as it is met",
        _CLEAR,
        "for (int i = blockIdx.x * 128 + t; i < n; i += gridDim.x * 128) bins[x[i]] = 0;",
        _CLEARED,
    ),
    ("a shuffle for some", "int t = threadIdx.x;", "int t = threadIdx.x; if (t < 7) __shfl_sync(~0u, t, 0);", _COME),
    ("spare threads leave", "int t = threadIdx.x;", "int t = threadIdx.x; if (t >= n) return;", _CLEARED),
    ("a division by 0", "bins[x[i]]", "bins[x[i] / (256 / n)]", _INSIDE),
    ("a trap left in", "int t = threadIdx.x;", "int t = threadIdx.x; if (n % 128) __trap();", _ENDS),
    ("cleared to one", "bins[b] = 0;", "bins[b] = 1;", "counts[block, b] is how often b occurs"),
    ("whole strides only", "i < n;", "i < n / 128 * 128;", "also for a few numbers"),
    ("counts of a byte", "= bins[b];", "= (unsigned char)bins[b];", "also where one number occurs very often"),
    ("counts of two bytes", "= bins[b];", "= (unsigned short)bins[b];", "also where one number occurs very often"),
    ("counts up to a limit", "= bins[b];", "= min(bins[b], 65535);", "also where one number occurs very often"),
    (
        "one thread clears all",
        _CLEAR,
        "if (t == 0) for (int b = 0; b < 256; ++b) bins[b] = 0;",
        "the threads share the clearing",
    ),
    (
        "two atomics for each number",
        "atomicAdd(&bins[x[i]], 1);",
        "{ atomicAdd(&bins[x[i]], 2); atomicSub(&bins[x[i]], 1); }",
        "an atomic in shared memory for each number, and no other",
    ),
    (
        "a barrier at every clearing",
        _CLEAR,
        "for (int b = t; b < 256; b += 128) { bins[b] = 0; __syncthreads(); }",
        "two barriers a block",
    ),
)

MUTANTS = [
    Mutant(exercise, *mutant)
    for exercise, mutants in (
        ("smooth", _SMOOTH),
        ("row_total", _ROW_TOTAL),
        ("histogram", _HISTOGRAM),
    )
    for mutant in mutants
]
