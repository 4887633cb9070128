"""Mistakes in the kernel that joins the parts, and other ways to write it."""

from mutants import Mutant, with_bits_of_a_half

_INSIDE = "it stays inside its arrays"
_MEET = "all threads reach each barrier and shuffle"
_ENDS = "it runs to its end"
_ORDER = "no race, and no uninitialised read"
_WRITTEN = "y and lse are written"
_EMPTY = "a sequence without keys gives 0 and -inf"
_Y = "y is the mean of values by all exponentials"
_LSE = "lse is the logarithm of the sum of exponentials"
_ANY_D = "also for one part, and for any D"
_GAPS = "also where some parts have no keys"
_HEAVY = "also where a part of millions of keys lies far below"
_MANY = "also where there are more parts than threads"
_ONCE = "values are read once, in the fewest sectors"
_STORES = "y is written once, in the fewest sectors"
_LANES = "the lanes of a warp work together"
_FEW = "largest scores and sums are read a few times"
_BARRIERS = "no barrier for each part"
_WARPS = "all warps take part"
_ATOMICS = "no atomics"
_MEMORY = "there is no other memory"

_FIRST = "const size_t first = (size_t)s * parts;"
_BEGIN = "float m = LOWEST;"
_TOP = "for (int i = 0; i < parts; ++i) m = fmaxf(m, largest[first + i]);"
_ZERO = "float sum = 0.0f, value = 0.0f;"
_LOOP = "for (size_t i = first; i < first + parts; ++i) {"
_FADE = "const float fade = expf(largest[i] - m);"
_SUM = "sum += fade * sums[i];"
_VALUE = "value += fade * values[i * D + d];"
_OUT = "y[(size_t)s * D + d] = sum > 0.0f ? value / sum : 0.0f;"
_STATE = "if (d == 0) lse[s] = m + logf(sum);"
_HEAD = """__global__ void join_parts(float* y, float* lse, const float* largest,
                           const float* sums, const float* values,
                           int parts, int D)
{
    // BEGIN SOLUTION"""

MUTANTS = [
    Mutant("join_parts", *mutant)
    for mutant in (
        ("one part too many", _LOOP, _LOOP.replace("<", "<="), _INSIDE),
        ("the parts of the next sequence", _FIRST, "const size_t first = (s + 1) * parts;", _INSIDE),
        (
            "rows of values one after a part's number times parts",
            _VALUE,
            _VALUE.replace("i * D", "i * parts * D"),
            _INSIDE,
        ),
        (
            "as many factors as fit",
            _ZERO,
            "__shared__ float kept[4096];\n"
            f"    for (int i = d; i < parts; i += D) kept[i] = largest[first + i];\n    __syncthreads();\n    {_ZERO}",
            _INSIDE,
        ),
        ("a barrier for the first warp", _ZERO, f"if (d < 32) __syncthreads();\n    {_ZERO}", _MEET),
        ("a loop that begins again", _LOOP, _LOOP.replace("++i", "i += D / 1024"), _ENDS),
        ("values in 32 bits", _VALUE, _VALUE.replace("i * D", "(unsigned)i * D"), "also for millions of sequences"),
        ("sequences that share y", _OUT, _OUT.replace("(size_t)s * D + d", "d"), _ORDER),
        (
            "factors that are read before they are there",
            _FADE,
            "__shared__ float f;\n        if (d == 0) f = expf(largest[i] - m);\n        const float fade = f;",
            _ORDER,
        ),
        ("sequences without keys return", _ZERO, f"if (m == LOWEST) return;\n    {_ZERO}", _WRITTEN),
        ("32 features", _OUT, f"if (d < 32) {_OUT}", _WRITTEN),
        ("no lse", _STATE, "", _WRITTEN),
        ("0 divided by 0", _OUT, "y[s * D + d] = value / sum;", _EMPTY),
        (
            "an lse of the lowest float",
            _STATE,
            _STATE.replace("m + logf(sum)", "sum > 0.0f ? m + logf(sum) : m"),
            _EMPTY,
        ),
        ("an lse of 0", _STATE, _STATE.replace("m + logf(sum)", "sum > 0.0f ? m + logf(sum) : 0.0f"), _EMPTY),
        ("a sum that begins with a little", _ZERO, _ZERO.replace("sum = 0.0f", "sum = 1e-30f"), _EMPTY),
        ("factors that are all 1", _FADE, "const float fade = 1.0f;", _Y),
        (
            "the largest of the last part",
            _TOP,
            _TOP.replace("fmaxf(m, largest[first + i])", "largest[first + i]"),
            _ANY_D,
        ),
        ("the largest of the first part", _TOP, _TOP.replace("i < parts", "i < 1"), _ANY_D),
        ("a largest that begins with 0", _BEGIN, "float m = 0.0f;", _Y),
        ("sums that do not fade", _SUM, "sum += sums[i];", _Y),
        ("values that do not fade", _VALUE, _VALUE.replace("fade * ", ""), _Y),
        ("values that are divided already", _VALUE, _VALUE.replace("values", "1.0f / sums[i] * values"), _Y),
        ("not divided by the sum", _OUT, _OUT.replace("value / sum", "value"), _Y),
        ("the mean of the parts", _OUT, _OUT.replace("value / sum", "value / parts"), _Y),
        ("factors of new less old", _FADE, _FADE.replace("largest[i] - m", "m - largest[i]"), _Y),
        ("factors of 2", _FADE, _FADE.replace("expf", "exp2f"), _Y),
        ("the values of the first part", _VALUE, _VALUE.replace("i * D", "first * D"), _Y),
        ("the first part is left out", _LOOP, _LOOP.replace("i = first", "i = first + 1"), _Y),
        ("y with the bits of a half", _OUT, _OUT.replace("value / sum", with_bits_of_a_half("value / sum")), _Y),
        ("no logarithm", _STATE, _STATE.replace("m + logf(sum)", "sum > 0.0f ? m + sum : -INFINITY"), _LSE),
        ("a logarithm to base 2", _STATE, _STATE.replace("logf", "log2f"), _LSE),
        ("an lse without the largest", _STATE, _STATE.replace("m + logf(sum)", "logf(sum)"), _LSE),
        ("the largest for the lse", _STATE, _STATE.replace("m + logf(sum)", "sum > 0.0f ? m : -INFINITY"), _LSE),
        ("the lse of the last part", _STATE, _STATE.replace("m +", "largest[first + parts - 1] +"), _LSE),
        ("512 features, again and again", _VALUE, _VALUE.replace("+ d", "+ d % 512"), _ANY_D),
        ("a largest that begins with the lowest half", _BEGIN, "float m = -65504.0f;", _ANY_D),
        ("a largest that begins with -1e30", _BEGIN, "float m = -1e30f;", _ANY_D),
        (
            "half of the threads, and half of those",
            f"{_BEGIN}\n    {_TOP}",
            "__shared__ float all[1024];\n    all[d] = LOWEST;\n"
            "    for (int i = d; i < parts; i += D) all[d] = fmaxf(all[d], largest[first + i]);\n    __syncthreads();\n"
            "    for (int half = D / 2; half; half /= 2) {\n        if (d < half) all[d] = fmaxf(all[d], all[d + half]);\n"
            "        __syncthreads();\n    }\n    const float m = all[0];",
            _ANY_D,
        ),
        ("a loop that ends at a part without keys", _FADE, f"if (sums[i] == 0.0f) break;\n        {_FADE}", _GAPS),
        ("parts without keys count 1", _SUM, "sum += sums[i] > 0.0f ? fade * sums[i] : m > LOWEST;", _GAPS),
        ("parts with small factors are left out", _FADE, f"{_FADE}\n        if (fade < 1e-7f) continue;", _HEAVY),
        ("as many parts as lanes", _LOOP, _LOOP.replace("first + parts", "first + min(parts, 32)"), _MANY),
        (
            "values that are read twice",
            _VALUE,
            f"{_VALUE}\n        value += 0.0f * ((volatile const float*)values)[i * D + d];",
            _ONCE,
        ),
        (
            "one lane at a time",
            _VALUE,
            f"for (int of = 0; of < 32; ++of)\n            if (d % 32 == of) {_VALUE}",
            _ONCE,
        ),
        ("y is stored part by part", _VALUE, f"{_VALUE}\n        ((volatile float*)y)[s * D + d] = value;", _STORES),
        (
            "eight lanes at a time",
            _VALUE,
            f"for (int of = 0; of < 4; ++of)\n            if (d % 32 / 8 == of) {_VALUE}",
            _LANES,
        ),
        (
            "the largest is found anew for every sixteenth part",
            _FADE,
            "const volatile float* all = largest + first;\n        float top = m;\n"
            "        for (int o = 0; i % 16 == 0 && o < parts; ++o) top = fmaxf(top, all[o]);\n"
            "        const float fade = expf(largest[i] - top);",
            _FEW,
        ),
        ("a barrier for each part", _FADE, f"__syncthreads();\n        {_FADE}", _BARRIERS),
        (
            "one warp does it all",
            f"{_ZERO}\n    {_LOOP}\n        {_FADE}\n        {_SUM}\n        {_VALUE}\n    }}\n    {_OUT}\n    {_STATE}",
            f"if (d >= 32) return;\n    for (int of = d; of < D; of += 32) {{\n    {_ZERO}\n    {_LOOP}\n        {_FADE}\n"
            f"        {_SUM}\n        {_VALUE.replace('+ d', '+ of')}\n    }}\n    {_OUT.replace('+ d', '+ of')}\n"
            f"    {_STATE.replace('d == 0', 'of == 0')}\n    }}",
            _WARPS,
        ),
        ("an atomic in place of a store", _STATE, "if (d == 0) atomicExch(&lse[s], m + logf(sum));", _ATOMICS),
        (
            "a number that is kept between launches",
            _HEAD,
            f"__device__ int kept;\n{_HEAD}\n    if (blockIdx.x + threadIdx.x == 0) kept = parts;",
            _MEMORY,
        ),
    )
]

_GIVEN = """__global__ void join_parts(float* y, float* lse, const float* largest, const float* sums, const float* values,
                           int parts, int D)
{
"""

ACCEPTED = {
    "the running state of a thread": _GIVEN
    + """    float m = -INFINITY, total = 0, sum = 0;
    for (int i = 0; i < parts; i++) {
        const size_t part = (size_t)blockIdx.x * parts + i;
        if (sums[part] == 0) continue;
        const float top = fmaxf(m, largest[part]), old = expf(m - top), now = expf(largest[part] - top);
        total = total * old + sums[part] * now;
        sum = sum * old + values[part * D + threadIdx.x] * now;
        m = top;
    }
    y[blockIdx.x * D + threadIdx.x] = total == 0 ? 0 : sum / total;
    if (threadIdx.x == 0) lse[blockIdx.x] = total == 0 ? -INFINITY : m + log2f(total) * 0.6931471805599453f;
}""",
    "the largest by lanes, factors in shared memory": _GIVEN
    + """    __shared__ float factors[32];
    const int lane = threadIdx.x & 31;
    const size_t at = (size_t)blockIdx.x * parts;
    float m = LOWEST;
    for (int i = lane; i < parts; i += 32) m = fmaxf(m, largest[at + i]);
    m = warp_max(m);
    float total = 0, sum = 0;
    for (int begin = 0; begin < parts; begin += 32) {
        const int count = min(32, parts - begin);
        if (begin) __syncwarp();
        if (D > 32) __syncthreads();
        if (threadIdx.x < count) factors[lane] = expf(largest[at + begin + lane] - m);
        __syncthreads();
        for (int i = 0; i < count; ++i) {
            total += factors[i] * sums[at + begin + i];
            sum += factors[i] * values[(at + begin + i) * D + threadIdx.x];
        }
    }
    y[blockIdx.x * D + threadIdx.x] = sum / fmaxf(total, 1e-37f);
    if (!threadIdx.x) lse[blockIdx.x] = total > 0 ? m + logf(total) : -INFINITY;
}""",
    "parts divided among warps, added up in shared memory": _GIVEN
    + """    __shared__ float all[1024], states[32][2];
    const int d = threadIdx.x, lane = d % 32, warp = d / 32, W = D / 32;
    const size_t at = (size_t)blockIdx.x * parts;
    float m = LOWEST, total = 0.0f, own[32] = {};
    for (int i = warp; i < parts; i += W) {
        const float top = fmaxf(m, largest[at + i]), old = expf(m - top), now = expf(largest[at + i] - top);
        for (int c = 0; c < W; ++c) own[c] = own[c] * old + values[(at + i) * D + 32 * c + lane] * now;
        m = top, total = total * old + sums[at + i] * now;
    }
    if (lane == 0) states[warp][0] = m, states[warp][1] = total;
    __syncthreads();
    float top = LOWEST;
    total = 0.0f;
    for (int w = 0; w < W; ++w) top = fmaxf(top, states[w][0]);
    for (int w = 0; w < W; ++w) total += states[w][1] * expf(states[w][0] - top);
    for (int turn = 0; turn < W; ++turn) {  // each warp has another 32 features a turn
        const int c = (warp + turn) % W;
        all[32 * c + lane] = (turn ? all[32 * c + lane] : 0.0f) + own[c] * expf(m - top);
        __syncthreads();
    }
    y[blockIdx.x * D + d] = total > 0.0f ? all[d] / total : 0.0f;
    if (d == 0) lse[blockIdx.x] = top + logf(total);
}""",
    "four features a thread, backwards, factors by shuffles": _GIVEN
    + """    const int lane = threadIdx.x % 32, d = threadIdx.x;
    const size_t at = (size_t)blockIdx.x * parts;
    float m = LOWEST, total = 0.0f;
    for (int i = lane; i < parts; i += 32) m = fmaxf(m, largest[at + i]);
    m = warp_max(m);
    for (int i = lane; i < parts; i += 32) total += sums[at + i] * expf(largest[at + i] - m);
    total = warp_sum(total);
    float4 sum = {0.0f, 0.0f, 0.0f, 0.0f};
    const int warps = D / 32, group = d / 8;  // eight threads have 32 features
    if (d < warps * 8 && lane < 8 * min(4, warps - d / 32 * 4)) {
        for (int i = parts - 1; i >= 0; --i) {
            const float factor = expf(largest[at + i] - m);
            const float4 of = *(const float4*)&values[(at + i) * D + group * 32 + d % 8 * 4];
            sum.x += factor * of.x, sum.y += factor * of.y, sum.z += factor * of.z, sum.w += factor * of.w;
        }
        const float by = total > 0.0f ? 1.0f / total : 0.0f;
        *(float4*)&y[blockIdx.x * D + d * 4] = make_float4(sum.x * by, sum.y * by, sum.z * by, sum.w * by);
    }
    if (d == 0) lse[blockIdx.x] = m + logf(total);
}""",
}
