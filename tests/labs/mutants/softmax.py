"""Mistakes in a softmax of two readings, and other ways to write it."""

from mutants import Mutant, with_bits_of_a_half

_INSIDE = "it stays inside its arrays"
_COME = "all threads reach each barrier and shuffle"
_ENDS = "it runs to its end"
_RACE = "no race, and no uninitialised read"
_RIGHT = "each row of y is the softmax of its row of x"
_ANY_SIZE = "also for rows that are not multiples of the block"
_LARGE = "also where all values are far from 0"
_SMALL = "also where thousands of small terms are a share of the sum"
_LOWEST = "also where all values are near the lowest float"
_INFINITE = "also where some values are −∞"
_READS = "x is read at most twice, in the fewest sectors"
_WRITES = "y is written once, in the fewest sectors"
_BARRIERS = "no barrier at every step"
_SHARED = "all warps of all blocks share the rows"
_DETOUR = "nothing passes through memory of its own"
_FAR = "also where an index needs 64 bits"

_LOOP = "for (int n = threadIdx.x; n < N; n += blockDim.x)"
_FIRST = f"{_LOOP}\n        part = merge(part, {{x[n], 1.0f}});"
_LAST = f"{_LOOP}\n        y[n] = expf(x[n] - part.largest) / part.sum;"
_LARGEST = "const float largest = fmaxf(a.largest, b.largest);"
_EMPTY = "const Part empty = {-3.402823466e38f, 0.0f};"
_LEAVE = "if (lane == 0) warp_parts[warp] = part;"
_WARPS = "for (int w = 0; w < 8; ++w) part = merge(part, warp_parts[w]);"
_STEP = "for (int apart = 16; apart > 0; apart /= 2)"
_HEAD = "__global__ void online_softmax(float* y, const float* x, int N)\n{\n"

MUTANTS = [
    Mutant("online_softmax", mistake, search, replace, broken)
    for mistake, search, replace, broken in (
        ("a loop one too long", _FIRST, _FIRST.replace("n < N", "n <= N"), _INSIDE),
        (
            "a row that shared memory does not hold",
            _FIRST,
            f"__shared__ float row[4096];\n    {_LOOP} row[n] = x[n];\n    {_FIRST.replace('x[n]', 'row[n]')}",
            _INSIDE,
        ),
        (
            "three passes over a row that one warp holds",
            _FIRST,
            f"""if (N <= 32) {{
        if (warp > 0) return;
        float largest = x[0], sum = 0.0f;
        for (int n = 1; n < N; ++n) largest = fmaxf(largest, x[n]);
        for (int n = 0; n < N; ++n) sum += expf(x[n] - largest);
        if (lane < N) y[lane] = expf(x[lane] - largest) / sum;
        return;
    }}
    {_FIRST}""",
            _READS,
        ),
        ("threads without an element leave", _FIRST, f"if (threadIdx.x >= N) return;\n    {_FIRST}", _COME),
        (
            "a barrier that one lane comes to",
            f"{_LEAVE}\n    __syncthreads();",
            "if (lane == 0) { warp_parts[warp] = part; __syncthreads(); }",
            _COME,
        ),
        ("a loop that stays where it is", _FIRST, _FIRST.replace("+= blockDim.x", "+= blockDim.y - 1"), _ENDS),
        ("no barrier", "__syncthreads();", "", _RACE),
        ("a barrier of warps only", "__syncthreads();", "__syncwarp();", _RACE),
        ("one warp writes no part", _LEAVE, "if (lane == 0 && warp < 7) warp_parts[warp] = part;", _RACE),
        ("only the first elements get a result", _LAST, _LAST.replace("n < N", "n < min(N, 256)"), _RIGHT),
        ("the sum so far is not scaled", "a.sum * expf(a.largest - largest)", "a.sum", _RIGHT),
        ("what comes is not scaled", "b.sum * expf(b.largest - largest)", "b.sum", _RIGHT),
        ("scaled the wrong way", "expf(a.largest - largest)", "expf(largest - a.largest)", _RIGHT),
        ("scaled by the other's largest value", "expf(a.largest - largest)", "expf(a.largest - b.largest)", _RIGHT),
        (
            "a larger value begins the sum anew",
            _LARGEST,
            f"{_LARGEST}\n    if (b.largest > a.largest) return b;",
            _RIGHT,
        ),
        ("a shuffle step missing", "int apart = 16", "int apart = 8", _RIGHT),
        ("the sum of the lane itself", "__shfl_xor_sync(0xffffffff, part.sum, apart)", "part.sum", _RIGHT),
        ("seven warps of eight", "w < 8", "w < 7", _RIGHT),
        ("the first warp twice", f"part = empty;\n    {_WARPS}", f"part = warp_parts[0];\n    {_WARPS}", _RIGHT),
        ("each warp by its own part", f"part = empty;\n    {_WARPS}", "", _RIGHT),
        ("no division", " / part.sum", "", _RIGHT),
        ("the bits of a half", "y[n] = expf(x[n]", f"y[n] = expf({with_bits_of_a_half('x[n]')}", _RIGHT),
        ("whole strides only", _FIRST, _FIRST.replace("n < N", "n < N / 256 * 256"), _ANY_SIZE),
        ("2,048 columns at most", _FIRST, _FIRST.replace("n < N", "n < min(N, 2048)"), _ANY_SIZE),
        ("−∞ where nothing is", "-3.402823466e38f", "-INFINITY", _ANY_SIZE),
        ("nothing is taken away", _LARGEST, "const float largest = 0.0f;", _LARGE),
        ("zero where nothing is", "-3.402823466e38f", "0.0f", _LARGE),
        ("−100 where nothing is", "-3.402823466e38f", "-100.0f", _LARGE),
        ("the lowest half where nothing is", "-3.402823466e38f", "-65504.0f", _LARGE),
        (
            "terms below e to the power of -18 left out",
            "const float from_b = b.sum * expf(b.largest - largest);",
            "const float from_b = b.largest - largest < -18.0f ? 0.0f : b.sum * expf(b.largest - largest);",
            _SMALL,
        ),
        ("−1e7 where nothing is", "-3.402823466e38f", "-1e7f", _LOWEST),
        ("−3.4e38 where nothing is", "-3.402823466e38f", "-3.4e38f", _LOWEST),
        ("the lowest float in too few digits", "-3.402823466e38f", "-3.402823e38f", _LOWEST),
        ("a sum of 1 where nothing is", _EMPTY, _EMPTY.replace("0.0f", "1.0f"), _LOWEST),
        ("−1e30 where nothing is", "-3.402823466e38f", "-1e30f", _LOWEST),
        (
            "−∞, and parts without an element told by their sum",
            f"{_EMPTY}\n",
            "const Part empty = {-INFINITY, 0.0f};\n",
            _ANY_SIZE,
        ),
        (
            "−∞ for a value is merged like any other",
            _FIRST,
            f"""if (threadIdx.x < N) part = {{x[threadIdx.x], 1.0f}};
    {_FIRST.replace("n = threadIdx.x;", "n = threadIdx.x + blockDim.x;")}""",
            _INFINITE,
        ),
        (
            "three passes",
            _FIRST,
            f"""{_LOOP} part.largest = fmaxf(part.largest, x[n]);
    {_LOOP} part.sum += expf(x[n] - part.largest);""",
            _READS,
        ),
        (
            "three passes for long rows",
            _FIRST,
            f"""if (N > 8192) {{
        {_LOOP} part.largest = fmaxf(part.largest, x[n]);
        {_LOOP} part.sum += expf(x[n] - part.largest);
    }} else
    {_FIRST}""",
            _READS,
        ),
        (
            "a stretch for each thread",
            _FIRST,
            """const int each = (N + 255) / 256;
    for (int n = threadIdx.x * each; n < min(N, (int)(threadIdx.x + 1) * each); ++n)
        part = merge(part, {x[n], 1.0f});""",
            _READS,
        ),
        (
            "divided in another loop",
            _LAST,
            f"{_LOOP} y[n] = expf(x[n] - part.largest);\n    {_LOOP} y[n] /= part.sum;",
            _WRITES,
        ),
        ("a row's place in 32 bits", "x += (long long)blockIdx.x * N;", "x += (int)blockIdx.x * N;", _FAR),
        ("a row's place in 32 bits without a sign", "x += (long long)blockIdx.x * N;", "x += blockIdx.x * N;", _FAR),
        ("the place in y in 32 bits", "y += (long long)blockIdx.x * N;", "y += blockIdx.x * N;", _FAR),
        (
            "a barrier at every element",
            _FIRST,
            f"for (int n = 0; n < N; n += 4) __syncthreads();\n    {_FIRST}",
            _BARRIERS,
        ),
        (
            "one warp reads the row",
            _FIRST,
            "for (int n = lane; n < N && warp == 0; n += 32)\n        part = merge(part, {x[n], 1.0f});",
            _SHARED,
        ),
        (
            "parts in global memory",
            f"{_HEAD}    // BEGIN SOLUTION\n    __shared__ Part warp_parts[8];",
            f"__device__ Part parts[512];\n{_HEAD}    Part* warp_parts = parts + 8 * blockIdx.x;",
            _DETOUR,
        ),
    )
]


ACCEPTED = {
    "online_softmax": {
        "vectors, and the row in shared memory where it fits": _HEAD
        + """    __shared__ float row[8192], warp_parts[2][8];
    const float* from = x + (size_t)blockIdx.x * N;
    float* to = y + (size_t)blockIdx.x * N;
    const bool kept = N <= 8192;
    float largest = -3.402823466e38f, sum = 0;
    if (kept && N % 4 == 0) {
        for (int n = 4 * threadIdx.x; n < N; n += 1024) *(float4*)(row + n) = *(const float4*)(from + n);
    } else if (kept) {
        for (int n = threadIdx.x; n < N; n += 256) row[n] = from[n];
    }
    __syncthreads();
    for (int n = threadIdx.x; n < N; n += 256) {
        const float value = kept ? row[n] : from[n], apart = value - largest, e = expf(-fabsf(apart));
        sum = apart > 0 ? sum * e + 1 : sum + e;
        largest = fmaxf(largest, value);
    }
    float most = largest;
    for (int apart = 16; apart; apart /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, apart));
    sum *= expf(largest - most);
    for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    if (threadIdx.x % 32 == 0) warp_parts[0][threadIdx.x / 32] = most, warp_parts[1][threadIdx.x / 32] = sum;
    __syncthreads();
    largest = warp_parts[0][0];
    for (int w = 1; w < 8; ++w) largest = fmaxf(largest, warp_parts[0][w]);
    sum = 0;
    for (int w = 0; w < 8; ++w) sum += warp_parts[1][w] * expf(warp_parts[0][w] - largest);
    for (int n = threadIdx.x; n < N; n += 256) to[n] = expf((kept ? row[n] : from[n]) - largest) / sum;
}""",
        "downwards, one thread for the warps, and by the logarithm": """struct Known { float m, s; };
__device__ Known with(Known a, float m, float s)
{
    if (m > a.m) return {m, s + a.s * expf(a.m - m)};
    return {a.m, a.s + (s ? s * expf(m - a.m) : 0.0f)};
}
"""
        + _HEAD
        + """    __shared__ Known known[8];
    __shared__ float together[2];
    Known own = {-3.402823466e38f, 0.0f};
    for (int n = threadIdx.x; n < N; n += 256) own = with(own, x[(size_t)blockIdx.x * N + n], 1.0f);
    for (int apart = 16; apart; apart >>= 1) {
        const float m = __shfl_down_sync(0xffffffff, own.m, apart), s = __shfl_down_sync(0xffffffff, own.s, apart);
        own = with(own, m, s);
    }
    if (threadIdx.x % 32 == 0) known[threadIdx.x / 32] = own;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < 8; ++w) own = with(own, known[w].m, known[w].s);
        together[0] = own.m, together[1] = 1.0f / own.s;
    }
    __syncthreads();
    for (int n = threadIdx.x; n < N; n += 256) {
        const size_t at = (size_t)blockIdx.x * N + n;
        y[at] = expf(x[at] - together[0]) * together[1];
    }
}""",
        "the first loop in registers, the rest read again": _HEAD
        + """    __shared__ double warp_parts[16];
    float first[4];
    const float* row = x + (long long)blockIdx.x * N;
    float m = -3.402823466e38f;
    double s = 0;
    for (int i = 0; i < 4; ++i) {
        const int n = threadIdx.x + 256 * i;
        first[i] = n < N ? row[n] : -INFINITY;
        m = fmaxf(m, first[i]);
    }
    for (int i = 0; i < 4; ++i) s += expf(first[i] - m);
    for (int n = threadIdx.x + 1024; n < N; n += 256) {
        const float before = m, value = row[n];
        m = fmaxf(m, value);
        s = s * exp((double)before - m) + exp((double)value - m);
    }
    for (int apart = 1; apart < 32; apart *= 2) {
        const float other = __shfl_xor_sync(0xffffffff, m, apart), most = fmaxf(m, other);
        const double t = __shfl_xor_sync(0xffffffff, s, apart);
        s = s * exp((double)m - most) + t * exp((double)other - most);
        m = most;
    }
    if (threadIdx.x % 32 == 0) warp_parts[threadIdx.x / 32] = m, warp_parts[8 + threadIdx.x / 32] = s;
    __syncthreads();
    double most = warp_parts[0], sum = 0;
    for (int w = 1; w < 8; ++w) most = fmax(most, warp_parts[w]);
    for (int w = 0; w < 8; ++w) sum += warp_parts[8 + w] * exp(warp_parts[w] - most);
    for (int n = threadIdx.x; n < N; n += 256)
        y[(long long)blockIdx.x * N + n] = expf((n < 1024 ? first[n / 256] : row[n]) - (float)most) / (float)sum;
}""",
    }
}
