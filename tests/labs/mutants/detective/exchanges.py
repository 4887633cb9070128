"""Wrong ways to fix the detective's kernels that pass values on by shuffles and atomics, among them what people try first."""

from mutants import Mutant

_INSIDE = "it stays inside its arrays"
_COME = "all threads reach each barrier and shuffle"
_ENDS = "it runs to its end"
_ORDER = "no race, and no uninitialised read"

_SCAN = """for (int apart = 1; apart < 32; apart *= 2) {
        float before = __shfl_up_sync(0xffffffff, sum, apart);
        if (lane >= apart) sum += before;
    }"""
_GIVEN = "no sum includes a value that no lane provided"
_INFINITE = "also where an element is infinite"
_RUNNING = "y[i] is the sum of its stretch, from the first element to i"


def _within(mask: str) -> str:
    """The broken loop, with another mask."""
    return f"for (int apart = 1; apart < 32; apart *= 2)\n        if (lane >= apart) sum += __shfl_up_sync({mask}, sum, apart);"


_RUNNING_SUM = (
    ("as it was given", _SCAN, _within("0xffffffff"), _COME),
    ("the mask of who is here", _SCAN, _within("__activemask()"), _GIVEN),
    ("the mask of who takes", _SCAN, _within("0xffffffffu << apart"), _GIVEN),
    ("a load without its guard", "i < n ? x[i] : 0", "x[i]", _INSIDE),
    ("a store without its guard", "if (i < n) y[i]", "y[i]", _INSIDE),
    ("every block writes to the first", "y[i] = sum", "y[threadIdx.x] = sum", _ORDER),
    ("lanes without a partner add their own", "if (lane >= apart) sum += before;", "sum += before;", _RUNNING),
    ("a guard one off", "if (lane >= apart) sum += before;", "if (lane > apart) sum += before;", _RUNNING),
    ("a step missing", _SCAN, _SCAN.replace("< 32", "< 16"), _RUNNING),
    (
        "a division by 0",
        "lane = threadIdx.x % 32",
        "lane = threadIdx.x % (n / 1000)",
        "y[i] is the sum of its stretch, from the first element to i",
    ),
    ("a trap left in", "float sum = i < n ? x[i] : 0;", "float sum = i < n ? x[i] : 0; if (n % 128) __trap();", _ENDS),
    ("the lane of the block", "lane = threadIdx.x % 32", "lane = threadIdx.x", _RUNNING),
    ("no result where a stretch is not full", "if (i < n) y[i]", "if (i / 32 < n / 32) y[i]", _GIVEN),
    ("whole stretches only", "i < n ? x[i] : 0", "i / 32 < n / 32 ? x[i] : 0", "also where a stretch is not full"),
    ("times 0 or 1", "if (lane >= apart) sum += before;", "sum += (lane >= apart) * before;", _INFINITE),
    (
        "times 0 or 1, of the first lane",
        _SCAN,
        """for (int apart = 1; apart < 32; apart *= 2)
        sum += (lane >= apart) * __shfl_sync(~0u, sum, max(lane - apart, 0));""",
        _INFINITE,
    ),
    (
        "times 0 or 1, around the end",
        _SCAN,
        """for (int apart = 1; apart < 32; apart *= 2)
        sum += (lane >= apart) * __shfl_sync(~0u, sum, lane - apart & 31);""",
        _INFINITE,
    ),
    (
        "shared memory in place of shuffles",
        "float before = __shfl_up_sync(0xffffffff, sum, apart);",
        "__shared__ float s[128]; s[threadIdx.x] = sum; __syncwarp();\n"
        "        float before = lane >= apart ? s[threadIdx.x - apart] : 0; __syncwarp();",
        "the sums are still passed by shuffles",
    ),
    (
        "every lane asks every other",
        _SCAN,
        "float own = sum;\n    sum = 0;\n    for (int k = 0; k < 32; ++k) {\n"
        "        float other = __shfl_sync(0xffffffff, own, k);\n        if (k <= lane) sum += other;\n    }",
        "as many shuffles as it takes steps",
    ),
    ("a barrier at every step", "float before", "__syncthreads();\n        float before", "no barrier"),
    (
        "every value passed twice",
        "if (lane >= apart) sum += before;",
        "before = __shfl_sync(0xffffffff, before, lane);\n        if (lane >= apart) sum += before;",
        "as many shuffles as it takes steps",
    ),
    (
        "atomics in place of shuffles",
        _SCAN,
        "__shared__ float s[128];\n    s[threadIdx.x] = 0.0f;\n    __syncwarp();\n"
        "    for (int k = lane; k < 32; ++k) atomicAdd(&s[threadIdx.x - lane + k], sum);\n"
        "    __syncwarp();\n    sum = s[threadIdx.x];",
        "the sums are still passed by shuffles",
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
_BOTH = f"""atomicMax(&most, __float_as_uint(x[n]));
    __syncthreads();
    // BEGIN SOLUTION
    {_SEARCH}"""
_EQUAL = "of equal values, the first"
_LARGEST = "where[m] is the position of the largest value of row m"


def _then(what: str) -> str:
    return f"if (__float_as_uint(x[n]) == most) {what}"


_FIRST_LARGEST = (
    ("as it was given", _FOUND, _then("first = n;"), _ORDER),
    ("look, then write", _FOUND, _then("if (n < first) first = n;"), _ORDER),
    ("look and write, volatile", _FOUND, _then("{ volatile int* f = &first; if (n < *f) *f = n; }"), _ORDER),
    ("look, then exchange", _FOUND, _then("{ if (n < *(volatile int*)&first) atomicExch(&first, n); }"), _ORDER),
    ("an exchange", _FOUND, _then("atomicExch(&first, n);"), _EQUAL),
    ("the first to come", _FOUND, _then("atomicCAS(&first, N, n);"), _EQUAL),
    (
        "the last",
        _SEARCH,
        f"if (threadIdx.x == 0) first = -1;\n    __syncthreads();\n    {_SEARCH.replace('Min', 'Max')}",
        _EQUAL,
    ),
    (
        "one pass: an exchange for a larger value, the smaller place for an equal one",
        _BOTH,
        """{
        const unsigned bits = __float_as_uint(x[n]), before = atomicMax(&most, bits);
        if (before < bits) atomicExch(&first, n);
        else if (before == bits) atomicMin(&first, n);
    }
    // BEGIN SOLUTION""",
        "no thread overwrites what another has found",
    ),
    ("begun at the first place", "first = N;", "first = 0;", _LARGEST),
    ("whole numbers", _BOTH, _BOTH.replace("__float_as_uint(x[n])", "(unsigned)x[n]"), _LARGEST),
    (
        "nearly the largest",
        _FOUND,
        "if (x[n] >= __uint_as_float(most) * 0.999999f) atomicMin(&first, n);",
        _LARGEST,
    ),
    ("a small difference", _FOUND, "if (fabsf(x[n] - __uint_as_float(most)) < 1e-3f) atomicMin(&first, n);", _LARGEST),
    ("no difference", _FOUND, "if (x[n] - __uint_as_float(most) == 0) atomicMin(&first, n);", _LARGEST),
    ("a row's place in 32 bits", "(long long)blockIdx.x", "blockIdx.x", "also for millions of rows"),
    (
        "places of 16 bits",
        _FOUND,
        _then("atomicMin(&first, (unsigned short)n);"),
        "also in a row of many thousand elements",
    ),
    (
        "places as floats",
        _FOUND,
        _then("atomicMin(&first, (int)(float)n);"),
        "also in a row of many thousand elements",
    ),
    ("places of 15 bits", _FOUND, _then("atomicMin(&first, n & 0x7fff);"), "also in a row of many thousand elements"),
    ("no barrier before the search", "__syncthreads();\n    // BEGIN", "// BEGIN", _ORDER),
    (
        "no barrier after the search",
        "__syncthreads();\n    if (threadIdx.x == 0) where",
        "if (threadIdx.x == 0) where",
        _ORDER,
    ),
    ("a loop one too long", _SEARCH, _SEARCH.replace("n < N", "n <= N"), _INSIDE),
    ("a barrier for who finds it", _FOUND, _then("{ __syncthreads(); first = n; }"), _COME),
    (
        "a division by 0",
        "x += (long long)blockIdx.x * N;",
        "x += (long long)blockIdx.x * N % (N / 1024);",
        _INSIDE,
    ),
    (
        "a trap left in",
        "x += (long long)blockIdx.x * N;",
        "x += (long long)blockIdx.x * N; if (N % 128) __trap();",
        _ENDS,
    ),
    (
        "each position again and again",
        _FOUND,
        _then("for (int k = 0; k < 999; ++k) atomicMin(&first, n);"),
        "at most two atomics an element",
    ),
    (
        "one thread searches",
        _SEARCH,
        f"if (threadIdx.x == 0)\n    for (int n = N - 1; n >= 0; --n)\n        {_then('first = n;')}",
        "the threads share the row",
    ),
    (
        "one warp searches",
        _SEARCH,
        f"if (threadIdx.x < 32)\n    for (int n = threadIdx.x; n < N; n += 32)\n        {_FOUND}",
        "the warps share the row",
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
        ("running_sum", _RUNNING_SUM),
        ("first_largest", _FIRST_LARGEST),
    )
    for mutant in mutants
]
