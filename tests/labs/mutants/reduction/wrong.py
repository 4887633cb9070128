"""Mistakes in a reduction of a block."""

from mutants import Mutant, with_bits_of_a_half

_INSIDE = "it stays inside its arrays"
_ENDS = "it runs to its end"
_RACE = "no race, and no uninitialised read"
_WRITTEN = "every row has its result"
_RIGHT = "value and index are those of the largest element"
_ANY_SIZE = "also for rows that are not multiples of the block"
_NEGATIVE = "also where all values are negative"
_TIES = "of equal values, the first"
_READS = "x is read in the fewest sectors"
_LANES = "a warp writes one pair to shared memory"
_BARRIERS = "at most two barriers a row"
_COME = "all threads reach each barrier and shuffle"
_LONG = "also for a very long row"
_INFINITE = "also where values are infinite"
_SHARED = "all warps of all blocks share the rows"
_STEPS = "five steps within a warp"
_ATOMICS = "lanes do not meet by atomics"
_DETOUR = "nothing passes through global memory"
_FAR = "also where an index needs 64 bits"

_ROW = "x += (long long)blockIdx.x * N;"
_LOOP = "for (int n = threadIdx.x; n < N; n += blockDim.x)"
_LEAVE = "if (lane == 0) { values[warp] = v; indices[warp] = i; }"
_BEST = """__device__ void best_of_warp(float& v, int& i)
{
    for (int apart = 16; apart > 0; apart /= 2) {
"""
_BETTER = "if (other_v > v || (other_v == v && other_i < i)) {"
_LAST_STEP = """if (warp > 0) return;
    v = lane < 8 ? values[lane] : least;
    i = lane < 8 ? indices[lane] : N;
    best_of_warp(v, i);"""
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
        ("the row of another block", "x += (long long)blockIdx.x * N;", "x += blockIdx.x / 2 * N;", _RIGHT),
        ("a division by 0", "lane = threadIdx.x % 32", "lane = threadIdx.x % (N / 2048)", _INSIDE),
        ("a loop that stays where it is", _LOOP, _LOOP.replace("+= blockDim.x", "+= blockDim.y - 1"), _ENDS),
        ("whole strides only", "n < N;", "n < N / 256 * 256;", _ANY_SIZE),
        ("2,048 columns at most", "n < N;", "n < min(N, 2048);", _ANY_SIZE),
        ("zero where nothing is", "-INFINITY", "0", _NEGATIVE),
        (
            "the smallest positive number where nothing is",
            "-INFINITY",
            "1.17549435e-38f",
            _NEGATIVE,
        ),
        ("−20 where nothing is", "-INFINITY", "-20", _NEGATIVE),
        ("a large number, negated, where nothing is", "-INFINITY", "-1e9f", _NEGATIVE),
        ("the least finite number where nothing is", "-INFINITY", "-3.402823466e38f", _INFINITE),
        (
            "an element that has to be greater",
            "take_better(v, i, x[n], n);",
            "if (x[n] > v) v = x[n], i = n;",
            _INFINITE,
        ),
        ("no rule for equal values", "other_v > v || (other_v == v && other_i < i)", "other_v > v", _TIES),
        ("the last of equal values", "other_v == v && other_i < i", "other_v == v && other_i > i", _TIES),
        ("the other one of equal values", "other_v > v || (other_v == v && other_i < i)", "other_v >= v", _TIES),
        (
            "no rule for equal values between warps",
            _LAST_STEP,
            """if (threadIdx.x > 0) return;
    for (int each = 1; each < 8; ++each)
        if (values[each] > v) v = values[each], i = indices[each];""",
            _TIES,
        ),
        ("nearly equal is equal", "other_v > v ||", "other_v > v && other_v - v > 1e-6f ||", _TIES),
        ("equal where the difference is 0", "other_v == v &&", "other_v - v == 0 &&", _INFINITE),
        (
            "a thread stops at a number that looks like infinity",
            "take_better(v, i, x[n], n);",
            "if (v < 1e30f) take_better(v, i, x[n], n);",
            _INFINITE,
        ),
        (
            "−0 is less than 0",
            _BETTER,
            """int own = __float_as_int(v), other = __float_as_int(other_v);
    own ^= own >> 31 & 0x7fffffff;
    other ^= other >> 31 & 0x7fffffff;
    if (other > own || (other == own && other_i < i)) {""",
            _TIES,
        ),
        (
            "indices as floats between warps",
            "__shared__ int indices",
            "__shared__ float indices",
            _LONG,
        ),
        (
            "two warps read the row",
            _LOOP,
            "for (int n = threadIdx.x; n < N && warp < 2; n += 64)",
            _SHARED,
        ),
        (
            "every lane asks every other",
            _SHUFFLES.join((_BEST, "        take_better(v, i, other_v, other_i);\n    }\n}")),
            """__device__ void best_of_warp(float& v, int& i)
{
    float own_v = v;
    int own_i = i;
    for (int lane = 0; lane < 32; ++lane)
        take_better(v, i, __shfl_sync(0xffffffff, own_v, lane), __shfl_sync(0xffffffff, own_i, lane));
}""",
            _STEPS,
        ),
        (
            "all threads meet at a word of shared memory",
            f"best_of_warp(v, i);\n    {_LEAVE}\n    __syncthreads();\n    {_LAST_STEP}",
            """__shared__ unsigned long long best;
    if (threadIdx.x == 0) best = 0;
    __syncthreads();
    unsigned bits = __float_as_uint(v + 0.0f);
    bits = bits & 0x80000000 ? ~bits : bits | 0x80000000;
    atomicMax(&best, (unsigned long long)bits << 32 | (unsigned)~i);
    __syncthreads();
    i = ~(unsigned)best;
    if (threadIdx.x > 0) return;
    v = x[i];""",
            _ATOMICS,
        ),
        ("indices of 16 bits between warps", "__shared__ int indices", "__shared__ short indices", _LONG),
        ("the last elements of long rows forgotten", "n < N;", "n < (N > 1024 ? N / 4 * 4 : N);", _ANY_SIZE),
        (
            "no value beyond the largest finite one",
            "take_better(v, i, x[n], n)",
            "take_better(v, i, fminf(x[n], 3.402823466e38f), n)",
            _INFINITE,
        ),
        (
            "vectors whatever N is",
            _LOOP + "\n        take_better(v, i, x[n], n);",
            """for (int n = 4 * threadIdx.x; n < N; n += 4 * blockDim.x) {
        float4 four = n + 3 < N ? *(const float4*)(x + n) : make_float4(x[n], least, least, least);
        take_better(v, i, four.x, n);
        take_better(v, i, four.y, n + 1);
        take_better(v, i, four.z, n + 2);
        take_better(v, i, four.w, n + 3);
    }""",
            _INSIDE,
        ),
        (
            "one thread reads the row where 256 does not divide N",
            _LOOP,
            "for (int n = N % 256 && threadIdx.x ? N : threadIdx.x; n < N; n += N % 256 ? 1 : blockDim.x)",
            _READS,
        ),
        (
            "one warp reads the row where 256 does not divide N",
            _LOOP,
            "for (int n = N % 256 && warp ? N : threadIdx.x; n < N; n += N % 256 ? 32 : blockDim.x)",
            _SHARED,
        ),
        (
            "all lanes write to shared memory where 256 does not divide N",
            _LEAVE,
            """if (N % 256) {
        __shared__ float all[2][256];
        all[0][threadIdx.x] = v, all[1][threadIdx.x] = i;
        v = all[0][threadIdx.x], i = all[1][threadIdx.x];
    }
    """
            + _LEAVE,
            _LANES,
        ),
        (
            "the bits of a half",
            "take_better(v, i, x[n], n)",
            f"take_better(v, i, {with_bits_of_a_half('x[n]')}, n)",
            _RIGHT,
        ),
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
            "x += (long long)blockIdx.x * N;",
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
    x += (long long)blockIdx.x * N;""",
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
        (
            "two pairs joined by their values alone",
            f"{_LOOP}\n        take_better(v, i, x[n], n);",
            """float w = least;
    int k = N, n = threadIdx.x;
    for (; n + 256 < N; n += 512) {
        take_better(v, i, x[n], n);
        take_better(w, k, x[n + 256], n + 256);
    }
    if (n < N) take_better(v, i, x[n], n);
    if (w > v) { v = w; i = k; }""",
            _TIES,
        ),
        ("a row's place in 32 bits", _ROW, "x += (int)blockIdx.x * N;", _FAR),
        ("a row's place in 32 bits without a sign", _ROW, "x += blockIdx.x * N;", _FAR),
    )
]
