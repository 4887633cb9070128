"""Mistakes in the kernel that has a part of the keys, and other ways to write it."""

from mutants import Mutant, with_bits_of_a_half

_INSIDE = "it stays inside its arrays"
_MEET = "all threads reach each barrier and shuffle"
_ENDS = "it runs to its end"
_ORDER = "no race, and no uninitialised read"
_WRITTEN = "every result is written"
_BEHIND = "what lies behind the length takes no part"
_EMPTY = "a part without keys leaves the lowest float, 0 and zeros"
_LARGEST = "largest is the largest score of the part"
_SUMS = "sums is the sum of exponentials, below the largest"
_VALUES = "values is the sum of rows of v, by the same exponentials"
_ANY_PART = "also for parts that begin within a page, and for any D"
_LONG = "also for a part of 13,000 keys"
_ONCE = "k and v are read once, in the fewest sectors"
_NOT_BEHIND = "nothing behind the length is read"
_LANES = "the lanes of a warp work together"
_TABLE = "the table is looked up once a key and warp"
_BARRIERS = "no barrier for each key"
_WARPS_K = "all warps read keys"
_WARPS_V = "all warps read values"
_ATOMICS = "no atomics"
_MEMORY = "there is no other memory"
_FAR = "also where a page's place needs 64 bits"
_MILLIONS = "also for millions of parts"

_QUERY = "q += (size_t)s * D;"
_TABLE_ROW = "table += (size_t)s * width;"
_START = "long long start = (long long)blockIdx.x * keys;"
_END = "const long long end = min(start + keys, (long long)lengths[s]);"
_BEGIN = "float m = LOWEST, sum = 0.0f, value = 0.0f;"
_TILES = "for (; start < end; start += 32) {"
_N = "const int n = min(end - start, 32LL), j = start + lane;"
_PAGE = "const size_t page = lane < n ? table[j / rows] : 0;"
_PLACE = "const size_t place = page * stride + j % rows * D;"
_KEYS = "for (int i = warp; i < n; i += D / 32) {"
_KEY = "const float* key = k + __shfl_sync(0xffffffff, place, i);"
_DOT = "for (int f = lane; f < D; f += 32) x += q[f] * key[f];"
_WHOLE_DOT = "x = warp_sum(x);"
_SCORE = "if (lane == 0) scores[i] = x * rsqrtf((float)D);"
_WAIT = "__syncthreads();\n        const float x"
_X = "const float x = lane < n ? scores[lane] : LOWEST;"
_TOP = "const float top = fmaxf(m, warp_max(x)), fade = expf(m - top);"
_WEIGHT = "const float weight = lane < n ? expf(x - top) : 0.0f;"
_SUM = "sum = sum * fade + warp_sum(weight);"
_FADE = "value *= fade;"
_ROWS = "for (int i = 0; i < n; ++i) {"
_ROW = "const size_t row = __shfl_sync(0xffffffff, place, i);"
_ADD = "value += __shfl_sync(0xffffffff, weight, i) * v[row + d];"
_WAIT_AGAIN = "        }\n        __syncthreads();\n    }"
_AT = "const size_t at = (size_t)s * gridDim.x + blockIdx.x;"
_OUT = "values[at * D + d] = value;"
_STATE = "if (d == 0) largest[at] = m, sums[at] = sum;"
_SHORT = "__shared__ float scores[32];"

_HEAD = """__global__ void part_of_keys(
    float* largest, float* sums, float* values, const float* q,
    const float* k, const float* v, const int* table, const int* lengths,
    int D, int rows, int width, int keys, int stride)
{
    // BEGIN SOLUTION"""

MUTANTS = [
    Mutant("part_of_keys", *mutant)
    for mutant in (
        ("the place of values in 32 bits", _AT, "const int at = s * gridDim.x + blockIdx.x;", _MILLIONS),
        ("the length is ignored", _END, "const long long end = start + keys;", _INSIDE),
        ("one key after the length", _END, _END.replace("lengths[s]", "lengths[s] + 1"), _INSIDE),
        ("the table by the key", _PAGE, _PAGE.replace("j / rows", "j"), _INSIDE),
        ("the table's place by key % rows", _PAGE, _PAGE.replace("j / rows", "j % rows"), _INSIDE),
        ("the next sequence's row of the table", _TABLE_ROW, "table += (s + 1) * width;", _INSIDE),
        ("rows of the table as long as a page", _TABLE_ROW, "table += s * rows;", _INSIDE),
        ("all lanes look up a page", _PAGE, "const size_t page = table[j / rows];", _INSIDE),
        ("row j of the page", _PLACE, _PLACE.replace("j % rows", "j"), _INSIDE),
        ("the key's number by key / rows", _PLACE, _PLACE.replace("j % rows", "j / rows"), _INSIDE),
        ("no barrier in blocks without a key", _N, f"{_N}\n        if (warp >= n) break;", _MEET),
        ("a shuffle that only some lanes come to", _ADD, f"if (lane < n) {_ADD}", _MEET),
        ("warps that wait for themselves", _SCORE, f"{_SCORE}\n            __syncthreads();", _MEET),
        ("tiles that do not go on", _TILES, _TILES.replace("start += 32", "start += 32 * (D < 32)"), _ENDS),
        ("no barrier before the scores are read", _WAIT, "const float x", _ORDER),
        ("no barrier before the next scores", _WAIT_AGAIN, "        }\n    }", _ORDER),
        ("scores of a short tile that nobody wrote", _X, "const float x = scores[lane];", _ORDER),
        ("all sequences share the results", _AT, "const int at = blockIdx.x;", _ORDER),
        ("parts without keys return", _BEGIN, f"if (start >= end) return;\n    {_BEGIN}", _WRITTEN),
        ("the state by a thread that may not be there", _STATE, _STATE.replace("d == 0", "d == 32"), _WRITTEN),
        ("one result for each part", _AT, "const int at = blockIdx.x + s;", _ORDER),
        (
            "the last page whole, with weights of 0",
            _N,
            "const int whole = min((int)(end + rows - 1) / rows * rows, (blockIdx.x + 1) * keys);\n"
            "        const int n = min(32, whole - (int)start), j = start + lane;",
            _BEHIND,
        ),
        (
            "a part that begins in 32 bits",
            "long long start = (long long)blockIdx.x * keys;",
            "long long start = (int)(blockIdx.x * keys);",
            _INSIDE,
        ),
        ("a part that begins in 32 bits without a sign", _START, "long long start = blockIdx.x * keys;", _EMPTY),
        ("lowest of all is -infinity", _BEGIN, _BEGIN.replace("LOWEST", "-INFINITY"), _EMPTY),
        ("a largest score that begins with 0", _BEGIN, _BEGIN.replace("LOWEST", "0.0f"), _LARGEST),
        ("a smallest float that is above 0", _BEGIN, _BEGIN.replace("LOWEST", "1.17549435e-38f"), _LARGEST),
        ("a sum that begins with 1", _BEGIN, _BEGIN.replace("sum = 0.0f", "sum = 1.0f"), _EMPTY),
        (
            "0 where no key has come",
            _STATE,
            "if (d == 0) largest[at] = sum > 0.0f ? m : 0.0f, sums[at] = sum;",
            _EMPTY,
        ),
        ("no scale", _SCORE, _SCORE.replace(" * rsqrtf((float)D)", ""), _LARGEST),
        ("scaled twice", _SCORE, _SCORE.replace("* rsqrtf((float)D)", "/ D"), _LARGEST),
        ("the scale is a root", _SCORE, _SCORE.replace("rsqrtf", "sqrtf"), _LARGEST),
        ("the product of one lane", _WHOLE_DOT, "", _LARGEST),
        ("the query of the first sequence", _QUERY, "", _LARGEST),
        ("largest of the last tile", _TOP, _TOP.replace("fmaxf(m, warp_max(x))", "warp_max(x)"), _LARGEST),
        ("a larger number of two sequences", _X, _X.replace("LOWEST", "0.0f"), _ANY_PART),
        ("the same keys in every part", _N, _N.replace("j = start + lane", "j = start % keys + lane"), _LARGEST),
        ("the first page in all tiles", _PAGE, _PAGE.replace("j / rows", "j / rows * 0"), _LARGEST),
        ("the table of the first sequence", _TABLE_ROW, "", _INSIDE),
        ("no fade at all", _TOP, _TOP.replace("expf(m - top)", "1.0f"), _SUMS),
        ("no fade of the sum", _SUM, _SUM.replace(" * fade", ""), _SUMS),
        ("a fade of new less old", _TOP, _TOP.replace("expf(m - top)", "expf(top - m)"), _SUMS),
        ("a fade by the new largest", _TOP, _TOP.replace("expf(m - top)", "expf(x - top)"), _SUMS),
        ("the sum of one lane", _SUM, _SUM.replace("warp_sum(weight)", "weight"), _SUMS),
        ("powers of 2", _WEIGHT, _WEIGHT.replace("expf", "exp2f"), _SUMS),
        ("weights without the largest", _WEIGHT, _WEIGHT.replace("x - top", "x"), _SUMS),
        ("weights below the last largest", _WEIGHT, _WEIGHT.replace("x - top", "x - m"), _SUMS),
        ("weights that are all 1", _WEIGHT, _WEIGHT.replace("expf(x - top)", "1.0f"), _SUMS),
        ("the largest is not kept", "m = top;", "", _LARGEST),
        ("no fade of the values", _FADE, "", _VALUES),
        ("values that fade twice", _FADE, f"{_FADE}\n        {_FADE}", _VALUES),
        ("values that fade key by key", _ADD, f"value *= fade;\n            {_ADD}", _VALUES),
        ("the weight of its own lane", _ADD, _ADD.replace("__shfl_sync(0xffffffff, weight, i)", "weight"), _VALUES),
        ("rows of k for values", _ADD, _ADD.replace("v[", "k["), _VALUES),
        ("values divided by the sum", _OUT, _OUT.replace("value;", "sum > 0.0f ? value / sum : 0.0f;"), _VALUES),
        ("32 features", _ADD, _ADD.replace("row + d", "row + lane"), _VALUES),
        ("the first row of v", _ADD, _ADD.replace("row + d", "row - row + d"), _VALUES),
        ("values with the bits of a half", _OUT, _OUT.replace("value;", f"{with_bits_of_a_half('value')};"), _VALUES),
        ("pages by a float's division", _PAGE, _PAGE.replace("j / rows", "(int)(j * (1.0f / rows))"), _ANY_PART),
        (
            "a largest score that begins with -1e30",
            _BEGIN,
            _BEGIN.replace("LOWEST", "start < end ? -1e30f : LOWEST"),
            _ANY_PART,
        ),
        ("scores of a thousand at most", _X, _X.replace("scores[lane]", "fminf(scores[lane], 1000)"), _ANY_PART),
        ("pages whole, however a part begins", _TILES, f"start = start / rows * rows;\n    {_TILES}", _ANY_PART),
        ("at most 64 features", _DOT, _DOT.replace("f < D", "f < min(D, 64)"), _ANY_PART),
        ("at most 512 features", _DOT, _DOT.replace("f < D", "f < min(D, 512)"), _ANY_PART),
        (
            "as many scores as fit",
            _SHORT,
            "__shared__ float all[4096];\n#define scores (all + (start - (long long)blockIdx.x * keys))",
            _INSIDE,
        ),
        ("at most 1,024 keys", _END, _END.replace("start + keys", "start + min(keys, 1024)"), _LONG),
        (
            "weights below a millionth left out",
            _WEIGHT,
            _WEIGHT.replace("lane < n", "lane < n && x - top > -13.8155f"),
            _LONG,
        ),
        (
            "a number is read behind the last page's",
            _BEGIN,
            "const volatile int* behind = &table[(lengths[s] + rows - 1) / rows];\n"
            "    if (d == 0 && behind < &table[width]) behind[0];\n"
            f"    {_BEGIN}",
            _INSIDE,
        ),
        (
            "keys that are read twice",
            _WHOLE_DOT,
            f"for (int f = lane; f < D; f += 32) x += 0.0f * ((volatile const float*)key)[f];\n            {_WHOLE_DOT}",
            _ONCE,
        ),
        (
            "a lane a key",
            _KEYS,
            """for (int i = warp * 32; i < 0; ++i) scores[0] = 0.0f;
        if (lane < n && warp == 0) {
            float x = 0.0f;
            for (int f = 0; f < D; ++f) x += q[f] * k[place + f];
            scores[lane] = x * rsqrtf((float)D);
        }
        for (int i = n + warp; i < n; i += D / 32) {""",
            _ONCE,
        ),
        (
            "one thread adds up the query",
            _ADD,
            "const float w = __shfl_sync(0xffffffff, weight, i);\n"
            "            for (int of = 0; of < 32; ++of)\n"
            "                if (lane == of) value += w * v[row + d];",
            _ONCE,
        ),
        (
            "the rows behind the last key are loaded",
            _ROWS,
            "volatile float unused = 0.0f;\n"
            "        if (n % rows && (start + n) % rows) unused = v[__shfl_sync(0xffffffff, place, n - 1) + D + d];\n"
            f"        {_ROWS}",
            _NOT_BEHIND,
        ),
        (
            "eight lanes at a time",
            _ADD,
            "const float w = __shfl_sync(0xffffffff, weight, i);\n"
            "            for (int of = 0; of < 4; ++of)\n"
            "                if (lane / 8 == of) value += w * v[row + d];",
            _LANES,
        ),
        (
            "two looks into the table for each value",
            _ADD,
            "const volatile int* own = &table[(start + i) / rows];\n"
            "            const float w = __shfl_sync(0xffffffff, weight, i);\n"
            "            value += w * v[row - own[0] + own[0] + d];",
            _TABLE,
        ),
        ("a barrier for each key", _ROW, f"{_ROW}\n            __syncthreads();", _BARRIERS),
        (
            "one warp finds the scores",
            _KEYS,
            "for (int i = 0; i < n && warp == 0; ++i) {",
            _WARPS_K,
        ),
        (
            "one warp adds up the values",
            f"{_FADE}\n        {_ROWS}\n            {_ROW}\n            {_ADD}\n        }}",
            f"""__shared__ float all[1024];
        if (start == (long long)blockIdx.x * keys) all[d] = 0.0f;
        __syncthreads();
        {_ROWS}
            {_ROW}
            const float w = __shfl_sync(0xffffffff, weight, i);
            for (int of = lane; of < D && warp == 0; of += 32) all[of] = all[of] * (i ? 1.0f : fade) + w * v[row + of];
        }}
        __syncthreads();
        value = all[d];""",
            _WARPS_V,
        ),
        ("a sum of atomics", _STATE, "if (d == 0) largest[at] = m, atomicExch(&sums[at], sum);", _ATOMICS),
        (
            "a number that is kept between launches",
            _HEAD,
            f"__device__ int kept;\n{_HEAD}\n    if (blockIdx.x + blockIdx.y + threadIdx.x == 0) kept = D;",
            _MEMORY,
        ),
        ("a place in 32 bits without a sign", _PLACE, _PLACE.replace("page *", "(unsigned)page *"), _FAR),
        ("a place in 32 bits", _PLACE, _PLACE.replace("page *", "(int)page *"), _FAR),
    )
]
_GIVEN = """__global__ void part_of_keys(float* largest, float* sums, float* values, const float* q, const float* k,
                             const float* v, const int* table, const int* lengths, int D, int rows, int width,
                             int keys, int stride)
{
"""

ACCEPTED = {
    "a state for each key, a place for each warp and key": _GIVEN
    + """    __shared__ float scores[16];
    const unsigned d = threadIdx.x, warp = d >> 5, lane = d & 31;
    const int* pages = table + blockIdx.y * width;
    const int length = lengths[blockIdx.y], first = (int)min((long long)blockIdx.x * keys, (long long)length);
    const int last = first + min(keys, length - first);
    float m = -INFINITY, l = 0, a = 0;
    for (int start = first; start < last; start += 16) {
        for (int j = start + warp; j < min(start + 16, last); j += D / 32) {
            const size_t at = size_t(pages[j / rows]) * stride + j % rows * D;
            float x = 0;
            for (int f = lane; f < D; f += 32) x = fmaf(k[at + f], q[blockIdx.y * D + f], x);
            for (int apart = 1; apart < 32; apart <<= 1) x += __shfl_xor_sync(~0u, x, apart);
            if (lane == 31) scores[j - start] = x / sqrtf(D);
        }
        __syncthreads();
        int page = -1;
        size_t place = 0;
        for (int j = start; j < min(start + 16, last); ++j) {
            if (j / rows != page) page = j / rows, place = (size_t)pages[page] * stride;
            const float x = scores[j - start], top = fmaxf(m, x), fade = expf(m - top), w = expf(x - top);
            l = l * fade + w;
            a = a * fade + w * v[place + j % rows * D + d];
            m = top;
        }
        __syncthreads();
    }
    const size_t out = (size_t)blockIdx.y * gridDim.x + blockIdx.x;
    if (d == 0) {
        largest[out] = l == 0 ? LOWEST : m;
        sums[out] = l;
    }
    values[out * D + d] = a;
}""",
    "places in shared memory, weights to base 2, two sets of scores": _GIVEN
    + """    __shared__ float scores[2][32];
    __shared__ long long places[2][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, s = blockIdx.y;
    const long long left = lengths[s] - (long long)blockIdx.x * keys;
    const int count = (int)max(min((long long)keys, left), 0LL), begin = count ? blockIdx.x * keys : 0;
    const float scale = rsqrtf((float)D) * 1.4426950408889634f;
    float m = LOWEST, sum = 0, value = 0;
    for (int tile = 0, set = 0; tile < count; tile += 32, set ^= 1) {
        const int n = min(32, count - tile);
        if (threadIdx.x < n) {
            const int j = begin + tile + threadIdx.x;
            places[set][threadIdx.x] = (long long)table[s * width + j / rows] * stride + j % rows * D;
        }
        __syncthreads();
        for (int i = warp; i < n; i += blockDim.x / 32) {
            float x = 0;
            for (int f = lane; f < D; f += 32) x += q[s * D + f] * k[places[set][i] + f];
            x = warp_sum(x);
            if (!lane) scores[set][i] = x * scale;
        }
        __syncthreads();
        float top = m;
        for (int i = 0; i < n; ++i) top = fmaxf(top, scores[set][i]);
        sum *= exp2f(m - top), value *= exp2f(m - top), m = top;
        for (int i = 0; i < n; ++i) {
            const float weight = exp2f(scores[set][i] - m);
            sum += weight, value += weight * v[places[set][i] + threadIdx.x];
        }
    }
    const size_t at = s * gridDim.x + blockIdx.x;
    values[at * D + threadIdx.x] = value;
    if (threadIdx.x == 0) sums[at] = sum, largest[at] = count > 0 ? m * 0.6931471805599453f : LOWEST;
}""",
    "a state for each warp, joined at the end": _GIVEN
    + """    __shared__ float states[32][2], all[1024];
    const int d = threadIdx.x, lane = d % 32, warp = d / 32, W = D / 32, s = blockIdx.y;
    const long long begin = (long long)blockIdx.x * keys, end = min(begin + keys, (long long)lengths[s]);
    float m = LOWEST, sum = 0.0f, own[32] = {};
    for (long long j = begin + warp; j < end; j += W) {
        const size_t at = (size_t)table[s * width + j / rows] * stride + j % rows * D + lane;
        float x = 0.0f;
        for (int c = 0; c < W; ++c) x += q[s * D + 32 * c + lane] * k[at + 32 * c];
        x = warp_sum(x) * rsqrtf((float)D);
        const float top = fmaxf(m, x), fade = expf(m - top), weight = expf(x - top);
        for (int c = 0; c < W; ++c) own[c] = own[c] * fade + weight * v[at + 32 * c];
        m = top, sum = sum * fade + weight;
    }
    if (lane == 0) states[warp][0] = m, states[warp][1] = sum;
    __syncthreads();
    float top = LOWEST, total = 0.0f;
    for (int w = 0; w < W; ++w) top = fmaxf(top, states[w][0]);
    for (int w = 0; w < W; ++w) total += states[w][1] * expf(states[w][0] - top);
    for (int w = 0; w < W; ++w) {  // in order
        for (int c = 0; w == warp && c < W; ++c) {
            const float before = w ? all[32 * c + lane] : 0.0f;
            all[32 * c + lane] = before + own[c] * expf(m - top);
        }
        __syncthreads();
    }
    const size_t out = (size_t)s * gridDim.x + blockIdx.x;
    values[out * D + d] = all[d];
    if (d == 0) largest[out] = top, sums[out] = total;
}""",
    "vectors of four features of k": _GIVEN
    + """    __shared__ float scores[32];
    const int d = threadIdx.x, lane = d % 32, s = blockIdx.y;
    const int first = (int)min((long long)blockIdx.x * keys, (long long)lengths[s]);
    const int end = first + min(keys, lengths[s] - first);
    const auto place = [&](int j) { return (size_t)table[s * width + j / rows] * stride + j % rows * D; };
    float m = LOWEST, sum = 0.0f, value = 0.0f;
    for (int start = first; start < end; start += 32) {
        const int n = min(32, end - start);
        for (int i = d / 8; i < (n + 3) / 4 * 4; i += D / 8) {  // eight lanes have a key, four keys a warp
            float x = 0.0f;
            if (i < n) {
                const float4* key = (const float4*)(k + place(start + i));
                const float4* of = (const float4*)(q + s * D);
                for (int f = d % 8; f < D / 4; f += 8) {
                    const float4 a = of[f], b = key[f];
                    x += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
                }
            }
            for (int apart = 4; apart; apart /= 2) x += __shfl_xor_sync(0xffffffff, x, apart);
            if (d % 8 == 0 && i < n) scores[i] = x * rsqrtf((float)D);
        }
        __syncthreads();
        const float x = lane < n ? scores[lane] : LOWEST, top = fmaxf(m, warp_max(x)), fade = expf(m - top);
        const float weight = lane < n ? expf(x - top) : 0.0f;
        m = top, sum = sum * fade + warp_sum(weight), value *= fade;
        for (int i = 0; i < n; ++i) value += __shfl_sync(0xffffffff, weight, i) * v[place(start + i) + d];
        __syncthreads();
    }
    const size_t at = s * gridDim.x + blockIdx.x;
    values[at * D + d] = value;
    if (d == 0) largest[at] = m, sums[at] = sum;
}""",
}
