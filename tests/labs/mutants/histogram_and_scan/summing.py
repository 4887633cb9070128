"""Mistakes in a cumulative sum that is carried along a row, and other ways to write it."""

from mutants import Mutant

_INSIDE = "it stays inside its arrays"
_COME = "all threads reach each barrier and shuffle"
_ENDS = "it runs to its end"
_ORDER = "no race, and no uninitialised read"
_WRITTEN = "every element of y is written"
_FIRST = "the first sum of a row is its first element"
_WARP = "within a warp each sum is the one before and x[j]"
_WARPS = "from warp to warp the sum goes on"
_TURNS = "from turn to turn the sum goes on"
_LARGE = "also where a sum exceeds an int"
_ALONE = "no thread adds up for the others"
_READ = "x is read once, in the fewest sectors"
_STORED = "y is written once, in the fewest sectors"
_LEFT = "a warp leaves one total in shared memory"
_TOTALS = "no total is read again and again"
_STEPS = "five steps within a warp"
_ATOMICS = "no atomics"
_BARRIERS = "at most three barriers a turn"
_SHARE = "all warps of all blocks take part"
_MEMORY = "there is no other memory"
_FAR = "also where an index needs 64 bits"

_ARRAY = "__shared__ long long totals[2][32];"
_LANE = "const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;"
_ROW = "x += (size_t)blockIdx.x * row;"
_TO = "y += (size_t)blockIdx.x * N;"
_CARRY = "long long carry = 0;"
_TURN = "for (int start = 0; start < N; start += blockDim.x, turn ^= 1) {"
_AT = "const int j = start + threadIdx.x;"
_LOAD = "long long sum = j < N ? x[j] : 0;"
_LOOP = "for (int apart = 1; apart < 32; apart *= 2) {"
_SHUFFLE = "const long long other = __shfl_up_sync(0xffffffff, sum, apart);"
_ADD = "if (lane >= apart) sum += other;"
_SCAN = f"{_LOOP}\n            {_SHUFFLE}\n            {_ADD}\n        }}"
_TOTAL = "if (lane == 31) totals[turn][warp] = sum;"
_BARRIER = "__syncthreads();"
_OWN_CARRY = "sum += carry;"
_WARPS_LOOP = "for (int w = 0; w < blockDim.x / 32; ++w) {"
_ONE = "const long long total = totals[turn][w];"
_BEFORE = "if (w < warp) sum += total;"
_NEXT = "carry += total;"
_ALL = f"{_WARPS_LOOP}\n            {_ONE}\n            {_BEFORE}\n            {_NEXT}\n        }}"
_STORE = "if (j < N) y[j] = sum;"
_MEETING = f"{_TOTAL}\n        {_BARRIER}\n        {_OWN_CARRY}\n        {_ALL}"
_EVERY = f"{_SCAN}\n        {_MEETING}\n        {_STORE}"
_HEAD = """__global__ void cumulative_sums(long long* y, const int* x, int N, int row)
{
    // BEGIN SOLUTION"""
_BODY = (
    f"{_HEAD}\n    {_ARRAY}\n    {_LANE}\n    {_ROW}\n    {_TO}\n    {_CARRY}\n    int turn = 0;\n    {_TURN}\n        {_AT}\n"
    f"        {_LOAD}\n        {_EVERY}\n    }}"
)

MUTANTS = [
    Mutant("cumulative_sums", mistake, search, replace, broken)
    for mistake, search, replace, broken in (
        ("a load without its guard", _LOAD, "long long sum = x[j];", _INSIDE),
        ("a load guarded by what a row takes", _LOAD, _LOAD.replace("j < N", "j < row"), _INSIDE),
        ("a store without its guard", _STORE, "y[j] = sum;", _INSIDE),
        ("eight warps at most", _ARRAY, _ARRAY.replace("32", "8"), _INSIDE),
        ("32 totals in every block", _WARPS_LOOP, _WARPS_LOOP.replace("blockDim.x / 32", "32"), _ORDER),
        (
            "four at once, wherever rows begin",
            _LOAD,
            "long long sum = 0;\n        if (start + blockDim.x <= N) {\n"
            "            const int4 of = ((const int4*)x)[j / 4];\n"
            "            sum = j % 4 == 0 ? of.x : j % 4 == 1 ? of.y : j % 4 == 2 ? of.z : of.w;\n"
            "        } else if (j < N) sum = x[j];",
            _INSIDE,
        ),
        ("threads past the end leave", _AT, f"{_AT}\n        if (j >= N) return;", _ORDER),
        ("threads past the end go on to the next turn", _AT, f"{_AT}\n        if (j >= N) continue;", _COME),
        (
            "a shuffle within the condition",
            f"{_SHUFFLE}\n            {_ADD}",
            "if (lane >= apart) sum += __shfl_up_sync(0xffffffff, sum, apart);",
            _COME,
        ),
        (
            "a barrier for the lane with the total",
            f"{_TOTAL}\n        {_BARRIER}",
            f"if (lane == 31) {{\n            totals[turn][warp] = sum;\n            {_BARRIER}\n        }}",
            _COME,
        ),
        ("a barrier for warps that have a warp before", _BARRIER, "if (warp > 0) __syncthreads();", _COME),
        ("a trap left in", _LOAD, f"{_LOAD}\n        if (j == N && N % 128) __trap();", _ENDS),
        ("no barrier", _BARRIER, "", _ORDER),
        ("a barrier of the warp", _BARRIER, "__syncwarp();", _ORDER),
        ("a fence in place of a barrier", _BARRIER, "__threadfence_block();", _ORDER),
        ("one set of totals, and one barrier", _TURN, _TURN.replace(", turn ^= 1", ""), _ORDER),
        ("no total of the last, partial warp", _TOTAL, _TOTAL.replace("lane == 31", "lane == 31 && j < N"), _ORDER),
        ("all lanes leave a total", _TOTAL, _TOTAL.replace("if (lane == 31) ", ""), _ORDER),
        ("every row is written to the first", _TO, "", _ORDER),
        (
            "carried in shared memory, and changed by all",
            _OWN_CARRY,
            "__shared__ long long all;\n        if (start == 0) all = 0;\n        __syncthreads();\n"
            "        all += sum;\n        sum += carry;",
            _ORDER,
        ),
        ("whole turns only", _TURN, _TURN.replace("start < N;", "start + blockDim.x <= N;"), _WRITTEN),
        ("a turn only", _TURN, _TURN.replace("start < N;", "start < min(N, (int)blockDim.x);"), _WRITTEN),
        ("whole warps only", _STORE, "if (j / 32 < N / 32) y[j] = sum;", _WRITTEN),
        ("one element too few", _STORE, "if (j < N - 1) y[j] = sum;", _WRITTEN),
        ("blocks of 256", _TURN, _TURN.replace("+= blockDim.x", "+= 256"), _WRITTEN),
        ("an exclusive sum", _STORE, "if (j < N) y[j] = sum - x[j];", _WARP),
        ("a carried sum that begins with the first element", _CARRY, "long long carry = N ? x[0] : 0;", _FIRST),
        (
            "a carried sum that the next launch finds",
            _BODY,
            f"__device__ long long kept[64];\n{_BODY.replace('carry = 0', 'carry = kept[blockIdx.x]')}\n"
            "    __syncthreads();\n    if (threadIdx.x == 0) kept[blockIdx.x] = carry;",
            _FIRST,
        ),
        ("the first row for all", _ROW, _ROW.replace("row;", "0;"), _WARP),
        ("lanes without a partner add their own", _ADD, "sum += other;", _WARP),
        ("a guard one off", _ADD, _ADD.replace(">=", ">"), _WARP),
        ("the lane of the block", _LANE, _LANE.replace("threadIdx.x % 32", "threadIdx.x"), _ORDER),
        ("a step missing at the end", _LOOP, _LOOP.replace("< 32", "< 16"), _WARP),
        ("a step missing at the beginning", _LOOP, _LOOP.replace("apart = 1", "apart = 2"), _WARP),
        ("steps of 1, 2, 3 and so on", _LOOP, _LOOP.replace("apart *= 2", "++apart"), _WARP),
        (
            "all lanes get the sum of the warp",
            f"{_SHUFFLE}\n            {_ADD}",
            "sum += __shfl_xor_sync(0xffffffff, sum, apart);",
            _WARP,
        ),
        (
            "from the lanes above",
            f"{_SHUFFLE}\n            {_ADD}",
            f"{_SHUFFLE.replace('_up_', '_down_')}\n            if (lane + apart < 32) sum += other;",
            _WARP,
        ),
        (
            "the mask of who takes",
            f"{_SHUFFLE}\n            {_ADD}",
            "if (lane >= apart) sum += __shfl_up_sync(0xffffffffu << apart, sum, apart);",
            _WARP,
        ),
        (
            "the mask of who is here",
            f"{_SHUFFLE}\n            {_ADD}",
            "if (lane >= apart) sum += __shfl_up_sync(__activemask(), sum, apart);",
            _WARP,
        ),
        ("the carried sum within the scan", f"{_SCAN}", f"sum += carry;\n        {_SCAN}", _WARP),
        ("the total of another lane", _TOTAL, _TOTAL.replace("31", "30"), _WARPS),
        ("no totals of warps before", _BEFORE, "", _WARPS),
        ("totals up to its own", _BEFORE, _BEFORE.replace("<", "<="), _WARPS),
        ("the total of the warp before alone", _BEFORE, _BEFORE.replace("<", "+ 1 =="), _WARPS),
        ("no total of the first warp", _WARPS_LOOP, _WARPS_LOOP.replace("w = 0", "w = 1"), _WARPS),
        ("the carried sum to the first warp alone", _OWN_CARRY, "if (warp == 0) sum += carry;", _WARPS),
        ("the carried sum not added", _OWN_CARRY, "", _TURNS),
        ("the carried sum does not grow", _NEXT, "", _TURNS),
        ("the carried sum is the last turn's", f"{_OWN_CARRY}\n", f"{_OWN_CARRY}\n        carry = 0;\n", _TURNS),
        ("the carried sum grows twice", _NEXT, "carry += 2 * total;", _TURNS),
        ("the carried sum is added twice", _OWN_CARRY, "sum += 2 * carry;", _TURNS),
        (
            "a warp's own sum is carried",
            f"{_NEXT}\n        }}",
            "}\n        carry = __shfl_sync(0xffffffff, sum, 31);",
            _WARPS,
        ),
        ("a carried sum without the last warp", _NEXT, "if (w + 1 < blockDim.x / 32) carry += total;", _TURNS),
        ("each thread carries its own sum", f"{_NEXT}\n        }}", "}\n        carry = sum;", _WARP),
        ("sums in an int", _LOAD, _LOAD.replace("long long", "int"), _LARGE),
        ("totals in an int", _ARRAY, _ARRAY.replace("long long", "int"), _LARGE),
        ("a carried sum in an int", _CARRY, "int carry = 0;", _LARGE),
        ("shuffles of an int", _SHUFFLE, "const int other = __shfl_up_sync(0xffffffff, (int)sum, apart);", _LARGE),
        ("sums in a float", _LOAD, _LOAD.replace("long long", "float"), _LARGE),
        ("without a sign", _LOAD, _LOAD.replace("long long", "unsigned"), _LARGE),
        (
            "the first thread scans the totals",
            f"{_BARRIER}\n        {_OWN_CARRY}\n        {_ALL}",
            """__syncthreads();
        const int warps = blockDim.x / 32;
        if (threadIdx.x == 0)
            for (int w = 1; w < warps; ++w) totals[turn][w] += totals[turn][w - 1];
        __syncthreads();
        sum += carry + (warp > 0 ? totals[turn][warp - 1] : 0);
        carry += totals[turn][warps - 1];""",
            _ALONE,
        ),
        (
            "the first thread adds all",
            _EVERY,
            """if (threadIdx.x > 0) continue;
        for (int k = start; k < min(N, start + (int)blockDim.x); ++k) y[k] = carry += x[k];""",
            _ALONE,
        ),
        (
            "the first thread adds all in shared memory",
            _EVERY,
            """__shared__ long long all[1024];
        all[threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.x == 0)
            for (int k = 1; k < blockDim.x; ++k) all[k] += all[k - 1];
        __syncthreads();
        sum = carry + all[threadIdx.x];
        carry += all[blockDim.x - 1];
        __syncthreads();
        if (j < N) y[j] = sum;""",
            _ALONE,
        ),
        ("an element is read again", _STORE, "if (j < N) y[j] = sum + 0 * ((const volatile int*)x)[j];", _READ),
        (
            "a row is read again where the block does not divide it",
            _STORE,
            "if (j < N) y[j] = sum + (N % blockDim.x ? 0 * ((const volatile int*)x)[j] : 0);",
            _READ,
        ),
        (
            "the first sums are stored, too",
            _SCAN,
            f"{_SCAN}\n        if (j < N) ((volatile long long*)y)[j] = sum;",
            _STORED,
        ),
        (
            "every fourth lane stores at a time",
            _STORE,
            "for (int of = 0; of < 4; ++of)\n            if (lane % 4 == of && j < N) y[j] = sum;",
            _STORED,
        ),
        (
            "shared memory in place of shuffles",
            _SHUFFLE,
            """__shared__ long long all[1024];
            __syncwarp();
            all[threadIdx.x] = sum;
            __syncwarp();
            const long long other = lane >= apart ? all[threadIdx.x - apart] : 0;""",
            _LEFT,
        ),
        (
            "all sums are left in shared memory",
            _TOTAL,
            f"__shared__ volatile long long all[1024];\n        all[threadIdx.x] = sum;\n"
            f"        sum = all[threadIdx.x];\n        {_TOTAL}",
            _LEFT,
        ),
        (
            "all totals are read twice",
            _ALL,
            f"{_ALL}\n        long long again = 0;\n        for (int k = 0; k < 2; ++k)\n"
            f"            {_WARPS_LOOP} again += ((volatile long long*)totals[turn])[w]; }}\n        if (again < 0) sum = 0;",
            _TOTALS,
        ),
        (
            "every lane asks every other",
            _SCAN,
            """const long long own = sum;
        sum = 0;
        for (int k = 0; k < 32; ++k) {
            const long long other = __shfl_sync(0xffffffff, own, k);
            if (k <= lane) sum += other;
        }""",
            _STEPS,
        ),
        (
            "the carried sum by an atomic",
            _ALL,
            "__shared__ unsigned long long all;\n        if (threadIdx.x == 0) all = carry;\n        __syncthreads();\n"
            "        if (lane == 31) atomicAdd(&all, (unsigned long long)(sum - carry));\n"
            "        for (int w = 0; w < warp; ++w) sum += totals[turn][w];\n        __syncthreads();\n        carry = all;",
            _ATOMICS,
        ),
        ("a barrier a step", _ADD, f"{_ADD}\n            __syncthreads();", _BARRIERS),
        (
            "one warp goes along the row",
            f"{_TURN}\n        {_AT}\n        {_LOAD}\n        {_EVERY}",
            f"if (warp > 0) return;\n    for (int start = 0; start < N; start += 32) {{\n        {_AT}\n        {_LOAD}\n"
            f"        {_SCAN}\n        {_OWN_CARRY}\n        carry = __shfl_sync(0xffffffff, sum, 31);\n        {_STORE}",
            _SHARE,
        ),
        (
            "a note is left in memory",
            _HEAD,
            f"__device__ int noted;\n{_HEAD}\n    if (blockIdx.x + threadIdx.x == 0) noted = N;",
            _MEMORY,
        ),
        ("places in 32 bits", _ROW, "x += (int)blockIdx.x * row;", _FAR),
        ("places in 32 bits without a sign", _ROW, "x += blockIdx.x * row;", _FAR),
        ("64 bits that come too late", _ROW, "x += (size_t)(blockIdx.x * row);", _FAR),
        ("the place in y in 32 bits", _TO, "y += blockIdx.x * N;", _FAR),
    )
]

_BEGIN = "__global__ void cumulative_sums(long long* y, const int* x, int N, int row)\n{\n"
_WITHIN = """__device__ long long within_warp(long long sum)
{
    const int lane = threadIdx.x & 31;
    for (int apart = 1; apart < 32; apart <<= 1) {
        const long long below = __shfl_up_sync(~0u, sum, apart);
        sum += lane >= apart ? below : 0;
    }
    return sum;
}

"""

ACCEPTED = {
    "totals scanned by the first warp": _WITHIN
    + _BEGIN
    + """    __shared__ long long upto[32], before;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    const int* from = x + (long long)row * blockIdx.x;
    if (threadIdx.x == 0) before = 0;
    for (int start = 0; start < N; start += blockDim.x) {
        const int j = start + threadIdx.x;
        long long sum = within_warp(j < N ? from[j] : 0);
        __syncthreads();
        if (lane == 31) upto[warp] = sum;
        __syncthreads();
        if (warp == 0) {
            const long long carry = before, all = within_warp(lane < warps ? upto[lane] : 0) + carry;
            const long long exclusive = __shfl_up_sync(0xffffffff, all, 1);
            if (lane < warps) upto[lane] = lane ? exclusive : carry;
            if (lane == 31) before = all;
        }
        __syncthreads();
        if (j < N) y[(long long)blockIdx.x * N + j] = upto[warp] + sum;
    }
}""",
    "totals scanned by every warp": _WITHIN
    + _BEGIN
    + """    __shared__ long long warp_parts[64];
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    x += (unsigned long long)row * blockIdx.x;
    long long carry = 0;
    for (int turn = 0; turn * (int)blockDim.x < N; turn++) {
        const int j = turn * blockDim.x + threadIdx.x;
        const long long sum = within_warp(j < N ? x[j] : 0);
        long long* totals = warp_parts + (turn & 1) * 32;
        if (lane == 31) totals[warp] = sum;
        __syncthreads();
        const long long upto = within_warp(lane < blockDim.x / 32 ? totals[lane] : 0);
        const long long before = __shfl_sync(0xffffffff, upto, (warp + 31) % 32);
        if (j < N) y[(size_t)N * blockIdx.x + j] = carry + sum + (warp ? before : 0);
        carry += __shfl_sync(0xffffffff, upto, 31);
    }
}""",
    "vector loads where rows allow": _WITHIN
    + _BEGIN
    + """    __shared__ long long warp_parts[2][32];
    const int warp = threadIdx.x / 32, each = row % 2 == 0 && N % 2 == 0 ? 2 : 1;
    x += size_t(blockIdx.x) * row;
    y += size_t(blockIdx.x) * N;
    long long carry = 0;
    int turn = 0;
    for (int start = 0; start < N; start += each * blockDim.x) {
        const int j = start + each * threadIdx.x;
        long long one = 0, both = 0;
        if (j < N && each == 2) {
            const int2 of = *(const int2*)(x + j);
            one = of.x, both = one + of.y;
        } else if (j < N) {
            one = both = x[j];
        }
        const long long sum = within_warp(both);
        if (threadIdx.x % 32 == 31) warp_parts[turn][warp] = sum;
        __syncthreads();
        long long before = carry + sum - both;
        for (int w = 0; w < blockDim.x / 32; ++w) {
            const long long total = warp_parts[turn][w];
            before += w < warp ? total : 0;
            carry += total;
        }
        turn = 1 - turn;
        if (j >= N) continue;
        if (each == 1) y[j] = before + one;
        else *(longlong2*)(y + j) = make_longlong2(before + one, before + both);
    }
}""",
    "one set of totals, two barriers, backwards sums": _BEGIN
    + """    extern __shared__ int none[];
    __shared__ long long totals[32];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    long long carry = 0;
    for (int j = t; j < (N + blockDim.x - 1) / blockDim.x * blockDim.x; j += blockDim.x) {
        long long own = 0;
        if (j < N) own = x[(size_t)blockIdx.x * row + j];
        long long sum = own;
#pragma unroll
        for (int step = 0; step < 5; ++step) {
            long long other = __shfl_sync(0xffffffffu, sum, max(lane - (1 << step), 0));
            if (lane >= 1 << step) sum += other;
        }
        if (lane == 31) totals[warp] = sum;
        __syncthreads();
        long long before = 0, all = 0;
        for (int w = blockDim.x / 32 - 1; w >= 0; --w) {
            const long long total = totals[w];
            all += total;
            if (w < warp) before += total;
        }
        if (j < N) y[(size_t)blockIdx.x * N + j] = carry + before + sum;
        carry += all;
        __syncthreads();
    }
}""",
}
