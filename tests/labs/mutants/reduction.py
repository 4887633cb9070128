"""Mistakes in a reduction of a block, and other ways to write it."""

from mutants import Mutant

_INSIDE = "it stays inside its arrays"
_ENDS = "it runs to its end"
_RACE = "no race, and nothing read that nobody wrote"
_WRITTEN = "every row has its result"
_RIGHT = "value and index are those of the largest element"
_ANY_SIZE = "also for rows that the block does not divide"
_NEGATIVE = "also where all values are negative"
_TIES = "of equal values, the first"
_READS = "x is read in the fewest sectors"
_LANES = "only one lane of a warp writes to shared memory"
_BARRIERS = "at most two barriers a row"
_COME = "all threads come to each barrier and shuffle"
_INFINITE = "also where all values are −∞"
_SHARED = "all warps of all blocks share the rows"
_DETOUR = "nothing takes a way through global memory"

_LOOP = "for (int n = threadIdx.x; n < N; n += blockDim.x)"
_LEAVE = "if (lane == 0) { values[warp] = v; indices[warp] = i; }"
_BEST = """__device__ void best_of_warp(float& v, int& i)
{
    for (int apart = 16; apart > 0; apart /= 2) {
"""
_SHUFFLES = """        float other_v = __shfl_xor_sync(0xffffffff, v, apart);
        int other_i = __shfl_xor_sync(0xffffffff, i, apart);
"""

MUTANTS = [
    Mutant("row_argmax", mistake, search, replace, broken)
    for mistake, search, replace, broken in (
        ("no barrier", "__syncthreads();", "", _RACE),
        ("a barrier of warps only", "__syncthreads();", "__syncwarp();", _RACE),
        (
            "a barrier that one lane comes to",
            f"{_LEAVE}\n    __syncthreads();",
            f"{_LEAVE[:-1]} __syncthreads(); }}",
            _COME,
        ),
        (
            "lanes that leave before a shuffle",
            "float v = least;",
            "float v = least; if (threadIdx.x >= N) return;",
            _COME,
        ),
        (
            "one lane too few writes for its warp",
            _LEAVE,
            "if (lane == 0 && warp < 7) { values[warp] = v; indices[warp] = i; }",
            _RACE,
        ),
        ("spare lanes read beyond the pairs", "lane < 8 ? values[lane] : least", "values[lane]", _INSIDE),
        ("a loop one too long", "n < N;", "n <= N;", _INSIDE),
        (
            "every block writes to the first row",
            "value[blockIdx.x] = v; index[blockIdx.x]",
            "value[0] = v; index[0]",
            _RACE,
        ),
        ("no index", "index[blockIdx.x] = i;", "", _WRITTEN),
        ("only the first elements", _LOOP, "for (int n = threadIdx.x; n < min(N, 256); n += blockDim.x)", _RIGHT),
        ("a shuffle step missing", "int apart = 16", "int apart = 8", _RIGHT),
        ("a shuffle step too few at the end", "apart > 0; apart /= 2", "apart > 1; apart /= 2", _RIGHT),
        ("the index is not passed on", "__shfl_xor_sync(0xffffffff, i, apart)", "i", _RIGHT),
        ("the index of the lane", "take_better(v, i, x[n], n)", "take_better(v, i, x[n], threadIdx.x)", _RIGHT),
        ("the least in place of the largest", "other_v > v ||", "other_v < v ||", _RIGHT),
        (
            "lanes beyond the warps add none",
            "lane < 8 ? values[lane] : least",
            "lane < 7 ? values[lane] : least",
            _RIGHT,
        ),
        ("the row of another block", "x += blockIdx.x * N;", "x += blockIdx.x / 2 * N;", _RIGHT),
        ("a division by 0", "lane = threadIdx.x % 32", "lane = threadIdx.x % (N / 2048)", _ENDS),
        ("a loop that stays where it is", _LOOP, _LOOP.replace("+= blockDim.x", "+= blockDim.y - 1"), _ENDS),
        ("whole strides only", "n < N;", "n < N / 256 * 256;", _ANY_SIZE),
        ("2,048 columns at most", "n < N;", "n < min(N, 2048);", _ANY_SIZE),
        ("zero where nothing is", "= __int_as_float(0xff800000)", "= 0", _NEGATIVE),
        (
            "the smallest positive number where nothing is",
            "= __int_as_float(0xff800000)",
            "= 1.17549435e-38f",
            _NEGATIVE,
        ),
        ("−20 where nothing is", "= __int_as_float(0xff800000)", "= -20", _NEGATIVE),
        ("a large number, negated, where nothing is", "= __int_as_float(0xff800000)", "= -1e9f", _NEGATIVE),
        ("the least finite number where nothing is", "= __int_as_float(0xff800000)", "= -3.402823466e38f", _INFINITE),
        (
            "an element that has to be greater",
            "take_better(v, i, x[n], n);",
            "if (x[n] > v) v = x[n], i = n;",
            _INFINITE,
        ),
        ("no rule for equal values", "other_v > v || (other_v == v && other_i < i)", "other_v > v", _TIES),
        ("the last of equal values", "other_v == v && other_i < i", "other_v == v && other_i > i", _TIES),
        ("the other one of equal values", "other_v > v || (other_v == v && other_i < i)", "other_v >= v", _TIES),
        ("half precision", "take_better(v, i, x[n], n)", "take_better(v, i, (float)(_Float16)x[n], n)", _RIGHT),
        (
            "a stretch for each thread",
            _LOOP,
            "for (int n = threadIdx.x * ((N + 255) / 256); n < min(N, (int)(threadIdx.x + 1) * ((N + 255) / 256)); ++n)",
            _READS,
        ),
        (
            "one warp reads the row",
            _LOOP,
            "for (int n = lane; n < N && warp == 0; n += 32)",
            _SHARED,
        ),
        (
            "the last block reads all rows",
            "x += blockIdx.x * N;",
            """if (blockIdx.x + 1 < gridDim.x) return;
    for (int m = 0; m + 1 < gridDim.x; ++m) {
        float v = least;
        int i = N;
        for (int n = threadIdx.x; n < N; n += blockDim.x) take_better(v, i, x[m * N + n], n);
        best_of_warp(v, i);
        if (lane == 0) { values[warp] = v; indices[warp] = i; }
        __syncthreads();
        v = lane < 8 ? values[lane] : least;
        i = lane < 8 ? indices[lane] : N;
        best_of_warp(v, i);
        if (threadIdx.x == 0) { value[m] = v; index[m] = i; }
        __syncthreads();
    }
    x += blockIdx.x * N;""",
            _SHARED,
        ),
        (
            "shared memory in place of shuffles",
            _SHUFFLES,
            """        __shared__ float all_v[256];
        __shared__ int all_i[256];
        all_v[threadIdx.x] = v, all_i[threadIdx.x] = i;
        __syncwarp();
        float other_v = all_v[threadIdx.x ^ apart];
        int other_i = all_i[threadIdx.x ^ apart];
        __syncwarp();
""",
            _LANES,
        ),
        (
            "global memory in place of shuffles",
            _BEST + _SHUFFLES,
            f"__device__ float all_v[16 * 256];\n__device__ int all_i[16 * 256];\n{_BEST}"
            """        float* vs = all_v + blockIdx.x * 256;
        int* is = all_i + blockIdx.x * 256;
        vs[threadIdx.x] = v, is[threadIdx.x] = i;
        __syncwarp();
        float other_v = vs[threadIdx.x ^ apart];
        int other_i = is[threadIdx.x ^ apart];
        __syncwarp();
""",
            _DETOUR,
        ),
        (
            "a barrier at every step",
            "if (warp > 0) return;",
            "for (int s = 0; s < 5; ++s) __syncthreads(); if (warp > 0) return;",
            _BARRIERS,
        ),
    )
]

_HEAD = "__global__ void row_argmax(float* value, int* index, const float* x, int N)\n{\n"

ACCEPTED = {
    "row_argmax": {
        "down, and one thread for the warps": _HEAD
        + """    __shared__ float values[8];
    __shared__ int indices[8];
    float v = -INFINITY;
    int i = 0x7fffffff;
    for (int n = threadIdx.x; n < N; n += 256) {
        float candidate = x[blockIdx.x * N + n];
        if (candidate > v || i == 0x7fffffff) v = candidate, i = n;
    }
    for (int apart = 16; apart; apart >>= 1) {
        float w = __shfl_down_sync(~0u, v, apart);
        int j = __shfl_down_sync(~0u, i, apart);
        if (w > v || (w == v && j < i)) v = w, i = j;
    }
    if (threadIdx.x % 32 == 0) values[threadIdx.x / 32] = v, indices[threadIdx.x / 32] = i;
    __syncthreads();
    if (threadIdx.x) return;
    for (int warp = 1; warp < 8; ++warp)
        if (values[warp] > v || (values[warp] == v && indices[warp] < i)) v = values[warp], i = indices[warp];
    value[blockIdx.x] = v;
    index[blockIdx.x] = i;
}""",
        "one number of 64 bits": """__device__ unsigned long long packed(float v, int n)
{
    unsigned bits = __float_as_uint(v);
    bits = bits & 0x80000000 ? ~bits : bits | 0x80000000;
    return (unsigned long long)bits << 32 | (unsigned)~n;
}
"""
        + _HEAD
        + """    __shared__ unsigned long long of_warp[8];
    unsigned long long best = 0;
    for (int n = threadIdx.x; n < N; n += blockDim.x) best = max(best, packed(x[blockIdx.x * N + n], n));
    for (int apart = 1; apart < 32; apart *= 2) best = max(best, __shfl_xor_sync(0xffffffffu, best, apart));
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = best;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < 8; ++warp) best = max(best, of_warp[warp]);
        int n = ~(unsigned)best;
        value[blockIdx.x] = x[blockIdx.x * N + n];
        index[blockIdx.x] = n;
    }
}""",
        "vector loads": _HEAD
        + """    __shared__ float values[8];
    __shared__ int indices[8];
    const float* row = x + (size_t)blockIdx.x * N;
    float v = -INFINITY;
    int i = N, width = N % 4 ? 1 : 4;
    for (int n = width * threadIdx.x; n < N; n += 256 * width) {
        float four[4];
        if (width == 4) *(float4*)four = *(const float4*)(row + n);
        else four[0] = row[n];
        for (int k = 0; k < width; ++k)
            if (four[k] > v || i == N) v = four[k], i = n + k;
    }
    for (int step = 0; step < 2; ++step) {
        for (int apart = 16; apart; apart /= 2) {
            float w = __shfl_xor_sync(0xffffffff, v, apart);
            int j = __shfl_xor_sync(0xffffffff, i, apart);
            bool take = w > v || w == v && j < i;
            v = take ? w : v;
            i = take ? j : i;
        }
        if (step == 0 && threadIdx.x % 32 == 0) values[threadIdx.x / 32] = v, indices[threadIdx.x / 32] = i;
        if (step == 0) __syncthreads();
        if (threadIdx.x >= 32) return;
        if (step == 0) v = values[threadIdx.x % 8], i = indices[threadIdx.x % 8];
    }
    if (threadIdx.x == 0) value[blockIdx.x] = v, index[blockIdx.x] = i;
}""",
    }
}
