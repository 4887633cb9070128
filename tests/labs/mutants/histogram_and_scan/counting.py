"""Mistakes in a histogram that is private to a block first, and other ways to write it."""

from mutants import Mutant

_INSIDE = "it stays inside its arrays"
_COME = "all threads reach each barrier and shuffle"
_ENDS = "it runs to its end"
_RACE = "no race"
_CLEARED = "no bin is used before it is cleared"
_LEFT = "bins that no value has stay as they are"
_ONCE = "every value is counted once"
_RIGHT = "counts[m, b] grows by how often b is in row m"
_BINS = "also where there are more bins than threads"
_ANY_SIZE = "also for rows that lie apart, in blocks of any size"
_ALIKE = "also where one bin takes all values"
_GLOBAL = "at most one global addition a bin and block"
_SHARED = "one shared addition a value"
_READ = "x is read once, in the fewest sectors"
_EACH = "the threads share clearing and adding up"
_BARRIERS = "no barrier for each value"
_WARPS = "all warps of all blocks count"
_MEMORY = "there is no other memory"
_FAR = "also where an index needs 64 bits"

_OWN = "__shared__ int own[256];"
_BINS_LOOP = "for (int b = threadIdx.x; b < bins; b += blockDim.x)"
_CLEAR = f"{_BINS_LOOP} own[b] = 0;"
_CLEARED_ALL = f"{_CLEAR}\n    __syncthreads();"
_ROW = "x += (size_t)blockIdx.y * row;"
_APART = "const int apart = gridDim.x * blockDim.x;"
_FIRST = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
_VALUES = "for (; i < N; i += apart)"
_ADD = "atomicAdd(&own[x[i]], 1);"
_COUNT = f"{_VALUES} {_ADD}"
_COUNTED_ALL = f"{_COUNT}\n    __syncthreads();"
_OUT_ROW = "counts += blockIdx.y * bins;"
_OUT = "if (own[b]) atomicAdd(&counts[b], own[b]);"
_ADD_UP = f"{_BINS_LOOP}\n        {_OUT}"
_WHERE = f"{_ROW}\n    {_APART}\n    {_FIRST}\n    "
_TURNS = (
    "for (int start = blockIdx.x * blockDim.x; start < N; start += apart) {\n        i = start + threadIdx.x;\n        "
)
_HEAD = """__global__ void count_values(int* counts, const unsigned char* x, int N,
                             int bins, int row)
{
    // BEGIN SOLUTION"""

MUTANTS = [
    Mutant("count_values", mistake, search, replace, broken)
    for mistake, search, replace, broken in (
        ("values one too many", _VALUES, _VALUES.replace("< N", "<= N"), _INSIDE),
        ("one bin too many", _ADD_UP, _ADD_UP.replace("< bins", "<= bins"), _INSIDE),
        ("a value for every thread", _COUNT, f"do {_ADD}\n    while ((i += apart) < N);", _INSIDE),
        ("bytes with a sign", _ADD, "atomicAdd(&own[(signed char)x[i]], 1);", _INSIDE),
        ("as many bins as threads of a block", _OWN, "__shared__ int own[128];", _INSIDE),
        (
            "four values at once, wherever rows begin",
            _COUNT,
            "for (; i < N / 4; i += apart) {\n        const uchar4 of = ((const uchar4*)x)[i];\n"
            "        atomicAdd(&own[of.x], 1), atomicAdd(&own[of.y], 1);\n"
            "        atomicAdd(&own[of.z], 1), atomicAdd(&own[of.w], 1);\n    }",
            _INSIDE,
        ),
        (
            "words of four values, also the last",
            _COUNT,
            f"if (row % 4) {_COUNT}\n    else for (; i < (N + 3) / 4; i += apart)\n"
            "        for (unsigned of = ((const unsigned*)x)[i], k = 0; k < 4 && 4 * i + k < N; ++k, of >>= 8)\n"
            "            atomicAdd(&own[of & 255], 1);",
            _INSIDE,
        ),
        (
            "a barrier for threads with a value",
            _COUNT,
            f"{_VALUES} {{\n        {_ADD}\n        __syncthreads();\n    }}",
            _COME,
        ),
        ("a barrier within a guard", _COUNTED_ALL, f"if (i < N) {{\n    {_COUNTED_ALL}\n    }}", _COME),
        ("threads without a value leave", _FIRST, f"{_FIRST}\n    if (i >= N) return;", _ONCE),
        (
            "an assertion without the last bin",
            _COUNT,
            f"{_VALUES} {{\n        assert(x[i] < bins - 1);\n        {_ADD}\n    }}",
            _ENDS,
        ),
        ("plain additions in shared memory", _ADD, "++own[x[i]];", _RACE),
        ("plain additions in global memory", _OUT, "counts[b] += own[b];", _RACE),
        ("an atomic load, but no atomic addition", _OUT, "counts[b] = atomicAdd(&counts[b], 0) + own[b];", _RACE),
        ("no barrier after clearing", _CLEARED_ALL, _CLEAR, _RACE),
        ("no barrier before adding up", _COUNTED_ALL, _COUNT, _RACE),
        ("a barrier of the warp after clearing", _CLEARED_ALL, f"{_CLEAR}\n    __syncwarp();", _RACE),
        ("a barrier of the warp before adding up", _COUNTED_ALL, f"{_COUNT}\n    __syncwarp();", _RACE),
        ("a fence in place of a barrier", _COUNTED_ALL, f"{_COUNT}\n    __threadfence_block();", _RACE),
        ("cleared while others count", _CLEARED_ALL, f"__syncthreads();\n    {_CLEAR}", _RACE),
        (
            "counts that the first block sets to zero",
            _ROW,
            f"if (blockIdx.x == 0)\n        {_BINS_LOOP} counts[blockIdx.y * bins + b] = 0;\n    {_ROW}",
            _RACE,
        ),
        ("no clearing", _CLEAR, "", _CLEARED),
        ("only the first 32 bins are cleared", _CLEAR, "if (threadIdx.x < 32) own[threadIdx.x] = 0;", _CLEARED),
        ("a bin a thread is cleared", _CLEAR, "if (threadIdx.x < bins) own[threadIdx.x] = 0;", _CLEARED),
        ("cleared in steps of 256", _CLEAR, _CLEAR.replace("blockDim.x", "256"), _CLEARED),
        ("the last bin is not cleared", _CLEAR, _CLEAR.replace("< bins", "< bins - 1"), _CLEARED),
        ("bins that begin at 1", _CLEAR, _CLEAR.replace("= 0;", "= 1;"), _LEFT),
        (
            "threads without a value count a 0",
            _COUNT,
            f"{_TURNS}atomicAdd(&own[i < N ? x[i] : 0], 1);\n    }}",
            _LEFT,
        ),
        ("exchanged in place of added", _OUT, "atomicExch(&counts[b], own[b]);", _LEFT),
        ("the larger in place of the sum", _OUT, "if (own[b]) atomicMax(&counts[b], own[b]);", _ONCE),
        ("the last values forgotten", _VALUES, _VALUES.replace("< N", "< N / apart * apart"), _ONCE),
        ("a value a thread", _COUNT, f"if (i < N) {_ADD}", _ONCE),
        ("each block counts all", _FIRST, "int i = threadIdx.x;", _ONCE),
        ("steps of a block", _APART, "const int apart = blockDim.x;", _ONCE),
        ("steps of one row's blocks and those of all rows", _APART, f"{_APART[:-1]} * gridDim.y;", _ONCE),
        ("blocks of 128", _FIRST, _FIRST.replace("blockDim.x", "128"), _ONCE),
        ("steps of four blocks of 128", _APART, "const int apart = 4 * 128;", _ONCE),
        (
            "the first bin a thread is added",
            _ADD_UP,
            f"if (threadIdx.x < bins) {_OUT.replace('b]', 'threadIdx.x]')}",
            _ONCE,
        ),
        ("only the first 32 bins are added", _ADD_UP, _ADD_UP.replace("< bins", "< min(bins, 32)"), _ONCE),
        ("one for each bin", _OUT, "if (own[b]) atomicAdd(&counts[b], 1);", _ONCE),
        ("bins of one value are left out", _OUT, _OUT.replace("own[b])", "own[b] > 1)", 1), _ONCE),
        ("values one too large", _ADD, "atomicAdd(&own[min(x[i] + 1, bins - 1)], 1);", _LEFT),
        ("all rows are added to the first", _OUT_ROW, "", _ONCE),
        (
            "each thread adds all bins",
            _ADD_UP,
            _ADD_UP.replace("b = threadIdx.x", "b = 0").replace("+= blockDim.x", "+= 1"),
            _ONCE,
        ),
        ("the first row is read for all", _ROW, "", _RIGHT),
        ("rows backwards", _ROW, "x += (size_t)(gridDim.y - 1 - blockIdx.y) * row;", _RIGHT),
        ("bins backwards", _OUT, "if (own[b]) atomicAdd(&counts[bins - 1 - b], own[b]);", _LEFT),
        ("each second value is taken for its neighbour", _ADD, "atomicAdd(&own[x[i & ~1]], 1);", _RIGHT),
        (
            "the last bin holds what has no thread",
            _ADD,
            "atomicAdd(&own[min((int)x[i], (int)blockDim.x - 1)], 1);",
            _BINS,
        ),
        ("seven bits of a value", _ADD, "atomicAdd(&own[bins > 128 ? x[i] & 127 : x[i]], 1);", _LEFT),
        ("rows without a gap", _ROW, _ROW.replace("row;", "N;"), _ANY_SIZE),
        (
            "two bins in a word",
            f"{_CLEARED_ALL}\n    {_WHERE}{_COUNTED_ALL}\n    {_OUT_ROW}\n    {_ADD_UP}",
            f"{_CLEARED_ALL}\n    {_WHERE}"
            f"{_VALUES} atomicAdd(&own[x[i] / 2], x[i] % 2 ? 65536 : 1);\n    __syncthreads();\n"
            f"    {_OUT_ROW}\n    {_BINS_LOOP} {{\n"
            "        const unsigned both = own[b / 2], of = b % 2 ? both >> 16 : both & 65535;\n"
            "        if (of) atomicAdd(&counts[b], (int)of);\n    }",
            _ALIKE,
        ),
        (
            "a stretch for each block, divided in 32 bits",
            f"{_FIRST}\n    {_COUNT}",
            "const int end = N * (blockIdx.x + 1) / gridDim.x;\n"
            "    int i = N * blockIdx.x / gridDim.x + threadIdx.x;\n"
            f"    for (; i < end; i += blockDim.x) {_ADD}",
            _ALIKE,
        ),
        ("bins of 16 bits at the end", _OUT, _OUT.replace(", own[b]", ", (unsigned short)own[b]"), _ALIKE),
        (
            "an addition in global memory a value",
            f"{_COUNT}\n    __syncthreads();\n    {_OUT_ROW}\n    {_ADD_UP}",
            f"{_OUT_ROW}\n    {_COUNT.replace('own', 'counts')}",
            _GLOBAL,
        ),
        (
            "bins of a warp, each added in global memory",
            f"{_OWN}\n    {_CLEARED_ALL}\n    {_WHERE}{_COUNTED_ALL}\n    {_OUT_ROW}\n    {_ADD_UP}",
            "__shared__ int all[32][256];\n    int* own = all[threadIdx.x / 32];\n    const int lane = threadIdx.x % 32;\n"
            "    for (int b = lane; b < bins; b += 32) own[b] = 0;\n    __syncwarp();\n"
            f"    {_WHERE}{_COUNT}\n    __syncwarp();\n    {_OUT_ROW}\n"
            f"    for (int b = lane; b < bins; b += 32)\n        {_OUT}",
            _GLOBAL,
        ),
        ("added one by one", _OUT, "for (int k = 0; k < own[b]; ++k) atomicAdd(&counts[b], 1);", _GLOBAL),
        (
            "values are counted, too",
            f"{_CLEARED_ALL}\n    {_WHERE}{_COUNT}",
            f"__shared__ int seen;\n    if (threadIdx.x == 0) seen = 0;\n    {_CLEARED_ALL}\n    {_WHERE}{_VALUES} {{\n"
            f"        {_ADD}\n        atomicAdd(&seen, 1);\n    }}",
            _SHARED,
        ),
        (
            "compared and exchanged until it fits",
            _ADD,
            "for (int old = 0, seen; (seen = atomicCAS(&own[x[i]], old, old + 1)) != old;) old = seen;",
            _SHARED,
        ),
        (
            "a value is read again",
            _COUNT,
            f"{_VALUES} {{\n        const volatile unsigned char* of = x + i;\n"
            "        if (*of < bins) atomicAdd(&own[*of], 1);\n    }",
            _READ,
        ),
        (
            "a stretch for each thread",
            f"{_FIRST}\n    {_COUNT}",
            f"{_FIRST}\n    const int each = (N + apart - 1) / apart, end = min(N, i * each + each);\n"
            f"    for (i *= each; i < end; ++i) {_ADD}",
            _READ,
        ),
        (
            "eight lanes at a time",
            _COUNT,
            f"{_VALUES}\n        for (int of = 0; of < 4; ++of)\n            if (threadIdx.x % 32 / 8 == of) {_ADD}",
            _READ,
        ),
        (
            "a reading for each bin",
            _COUNT,
            "for (int b = 0; b < bins; ++b)\n        for (int j = i; j < N; j += apart)\n"
            "            if (x[j] == b) atomicAdd(&own[b], 1);",
            _READ,
        ),
        (
            "the first thread clears all",
            _CLEAR,
            "if (threadIdx.x == 0)\n        for (int b = 0; b < bins; ++b) own[b] = 0;",
            _EACH,
        ),
        (
            "the first thread adds all",
            _ADD_UP,
            f"if (threadIdx.x == 0)\n        for (int b = 0; b < bins; ++b)\n            {_OUT}",
            _EACH,
        ),
        ("every thread clears all", _CLEAR, "for (int b = 0; b < bins; ++b) own[b] = 0;", _EACH),
        (
            "a barrier for each value, which all threads reach",
            _COUNT,
            f"{_TURNS}if (i < N) {_ADD}\n        __syncthreads();\n    }}",
            _BARRIERS,
        ),
        (
            "the first warp of a block counts",
            f"{_FIRST}\n    {_COUNT}",
            f"int i = threadIdx.x < 32 ? blockIdx.x * 32 + threadIdx.x : N;\n    for (; i < N; i += gridDim.x * 32) {_ADD}",
            _WARPS,
        ),
        (
            "the first block counts",
            f"{_APART}\n    {_FIRST}",
            "const int apart = blockDim.x;\n    int i = blockIdx.x ? N : threadIdx.x;",
            _WARPS,
        ),
        (
            "bins of a block in global memory",
            f"{_HEAD}\n    {_OWN}",
            f"__device__ int tables[4096][256];\n{_HEAD}\n    int* own = tables[blockIdx.y * gridDim.x + blockIdx.x];",
            _GLOBAL,
        ),
        (
            "a note is left in memory",
            f"{_HEAD}",
            f"__device__ int noted;\n{_HEAD}\n    if (blockIdx.x + blockIdx.y + threadIdx.x == 0) noted = N;",
            _MEMORY,
        ),
        ("places in 32 bits", _ROW, "x += (int)blockIdx.y * row;", _FAR),
        ("places in 32 bits without a sign", _ROW, "x += blockIdx.y * row;", _FAR),
        ("64 bits that come too late", _ROW, "x += (size_t)(blockIdx.y * row);", _FAR),
    )
]

_SIGNED = "__global__ void count_values(int* counts, const unsigned char* x, int N, int bins, int row)\n{\n"

ACCEPTED = {
    "bins of each warp": _SIGNED
    + """    __shared__ int warp_parts[32][256];
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = (blockDim.x + 31) / 32;
    for (int b = lane; b < bins; b += 32) warp_parts[warp][b] = 0;
    __syncwarp();
    const unsigned char* values = x + (long long)row * blockIdx.y;
    for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < N; i += blockDim.x * gridDim.x)
        atomicAdd(warp_parts[warp] + values[i], 1);
    __syncthreads();
    for (int b = threadIdx.x; b < bins; b += blockDim.x) {
        int sum = 0;
        for (int w = 0; w < warps; w++) sum += warp_parts[w][b];
        atomicAdd(counts + blockIdx.y * bins + b, sum);
    }
}""",
    "bins of each warp, all of them cleared": _SIGNED
    + """    __shared__ int own[32][256];
    const int warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
    for (int b = threadIdx.x; b < 256 * warps; b += blockDim.x) own[b / 256][b % 256] = 0;
    __syncthreads();
    x += (size_t)blockIdx.y * row;
    for (long long i = blockIdx.x * blockDim.x + threadIdx.x; i < N; i += gridDim.x * blockDim.x)
        atomicAdd(&own[warp][x[i]], 1);
    __syncthreads();
    for (int b = threadIdx.x; b < bins; b += blockDim.x) {
        int n = 0;
        for (int w = 0; w < warps; ++w) n += own[w][b];
        if (n > 0) atomicAdd(&counts[blockIdx.y * bins + b], n);
    }
}""",
    "zeros in a register": _SIGNED
    + """    __shared__ int own[256];
    for (int b = threadIdx.x; b < bins; b += blockDim.x) own[b] = 0;
    __syncthreads();
    int zeros = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < N; i += gridDim.x * blockDim.x)
        if (const int of = x[(size_t)blockIdx.y * row + i]) atomicAdd(&own[of], 1);
        else ++zeros;
    atomicAdd(&own[0], zeros);
    __syncthreads();
    for (int b = threadIdx.x; b < bins; b += blockDim.x) atomicAdd(&counts[blockIdx.y * bins + b], own[b]);
}""",
    "a head and a tail beside words": _SIGNED
    + """    __shared__ int own[256];
    for (int b = threadIdx.x; b < bins; b += blockDim.x) own[b] = 0;
    __syncthreads();
    x += (size_t)blockIdx.y * row;
    const int first = blockIdx.x * blockDim.x + threadIdx.x, apart = gridDim.x * blockDim.x;
    const int head = min(N, (int)(-(size_t)x & 3)), words = (N - head) / 4;
    if (first < head) atomicAdd(&own[x[first]], 1);
    for (int i = first; i < words; i += apart) {
        const uchar4 of = ((const uchar4*)(x + head))[i];
        atomicAdd(&own[of.x], 1), atomicAdd(&own[of.y], 1), atomicAdd(&own[of.z], 1), atomicAdd(&own[of.w], 1);
    }
    for (int i = first + head + 4 * words; i < N; i += apart) atomicAdd(&own[x[i]], 1);
    __syncthreads();
    for (int b = threadIdx.x; b < bins; b += blockDim.x) atomicAdd(&counts[blockIdx.y * bins + b], own[b]);
}""",
    "lanes that agree first": _SIGNED
    + """    __shared__ unsigned own[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x) own[b] = 0;
    __syncthreads();
    x += (long long)row * blockIdx.y;
    for (int start = blockIdx.x * blockDim.x; start < N; start += gridDim.x * blockDim.x) {
        const int i = start + threadIdx.x;
        const int value = i < N ? x[i] : -1;
        const unsigned alike = __match_any_sync(0xffffffff, value);
        if (value >= 0 && threadIdx.x % 32 == __ffs(alike) - 1) atomicAdd(&own[value], __popc(alike));
    }
    __syncthreads();
    for (int b = threadIdx.x; b < bins; b += blockDim.x)
        if (int many = own[b]) atomicAdd(&counts[bins * blockIdx.y + b], many);
}""",
    "vector loads where rows allow": _SIGNED
    + """    __shared__ int own[256];
    int4* four = (int4*)own;
    for (int b = threadIdx.x; b < 64; b += blockDim.x) four[b] = make_int4(0, 0, 0, 0);
    x += size_t(row) * blockIdx.y;
    __syncthreads();
    const int first = blockIdx.x * blockDim.x + threadIdx.x, apart = gridDim.x * blockDim.x;
    if (row % 4 == 0) {
        for (int i = first; i < N / 4; i += apart) {
            const unsigned of = ((const unsigned*)x)[i];
            for (int k = 0; k < 32; k += 8) atomicAdd(&own[of >> k & 255], 1);
        }
        for (int i = N / 4 * 4 + first; i < N; i += apart) atomicAdd(&own[x[i]], 1);
    } else {
        for (int i = first; i < N; i += apart) atomicAdd(&own[x[i]], 1);
    }
    __syncthreads();
    for (int b = threadIdx.x; b < bins; b += blockDim.x) atomicAdd(&counts[blockIdx.y * bins + b], own[b]);
}""",
    "a stretch for each block": """__device__ void add(int* bin, int many)
{
    if (many != 0) atomicAdd(bin, many);
}

"""
    + _SIGNED
    + """    extern __shared__ int none[];
    __shared__ int own[256];
    const int t = threadIdx.x, T = blockDim.x, b = blockIdx.x, G = gridDim.x, m = blockIdx.y;
    int bin = t;
    while (bin < bins) {
        own[bin] = 0;
        bin += T;
    }
    __syncthreads();
    const int each = (N + G - 1) / G, end = b * each + each < N ? b * each + each : N;
    for (int i = b * each + t; i < end; i += T) add(&own[x[(unsigned long long)m * row + i]], 1);
    __syncthreads();
    for (bin = t; bin < bins; bin += T) add(&counts[m * bins + bin], own[bin]);
}""",
}
