"""Mistakes in a turn in place, forward by halves and back by neighbours, and other ways to write both."""

from mutants import Mutant, with_bits_of_a_half

_INSIDE = "it stays inside its arrays"
_ENDS = "it runs to its end"
_RACE = "no race"
_LEFT = "v and everything beyond stay as they are"
_TURNED = "every pair of q and k is turned"
_LENGTH = "every pair keeps its length"
_RIGHT = "features i and i + D/2 of q and k are turned"
_BACK = "features 2i and 2i + 1 of the gradients are turned back"
_ANY_SIZE = "also for sizes that the blocks do not divide, and for extreme values"
_ONCE = "each result is rounded once"
_READ = "every number of q and k is read once"
_WRITTEN = "every number of q and k is written once"
_LOADS = "q and k are read in the fewest sectors"
_STORES = "q and k are written in the fewest sectors"
_ANGLES = "the angles are read once for all heads"
_LANES = "the lanes of a warp work together"
_BARRIERS = "no barrier for each head"
_ATOMICS = "no atomics"
_WARPS = "all warps take part"
_MEMORY = "there is no other memory"
_FAR = "also where an index needs 64 bits"

_POSITION = "const int s = blockIdx.y * blockDim.y + threadIdx.y;"
_GUARD = "if (pair >= D / 2 || s >= S) return;"
_AT = "const int at = s * (D / 2) + pair;"
_OF = "const float c = cos[at], n = sin[at];"
_PLACE = "((size_t)blockIdx.z * S + s) * row"
_LOOP = "for (int h = 0; h < H + K; ++h) {"
_A, _B = "x[h * D] = a * c - b * n;", "x[h * D + D / 2] = b * c + a * n;"
_BOTH = "const float a = x[h * D], b = x[h * D + D / 2];"
_PAIR = "const float2 p = __bfloat1622float2(x[h * (D / 2)]);"
_FORMULA = "const float a = p.x * c + p.y * n, b = p.y * c - p.x * n;"
_STORE = "x[h * (D / 2)] = __floats2bfloat162_rn(a, b);"
_FULL = f"{_BOTH}\n        {_A}\n        {_B}"
_QUARTERS = "for (int of = 0; of < 4; ++of)\n        if ({} == of)"
_EIGHT = "for (int of = 0; of < (D % 64 ? 1 : 4); ++of)\n        if (D % 64 || threadIdx.x / 8 == of)"

# Of both kernels, whose lines are the same but for what a pair is.
_COMMON = (
    ("no guard of pairs", _GUARD, "if (s >= S) return;", _INSIDE),
    ("no guard of positions", _GUARD, "if (pair >= D / 2) return;", _INSIDE),
    ("a guard of features in place of pairs", _GUARD, _GUARD.replace("D / 2", "D"), _INSIDE),
    ("a guard one too late", _GUARD, _GUARD.replace("s >= S", "s > S"), _INSIDE),
    ("rows of angles as long as heads", _AT, "const int at = s * D + pair;", _INSIDE),
    ("angles of the batch", _AT, _AT.replace("s *", "(blockIdx.z * S + s) *"), _INSIDE),
    ("a loop that stays where it is", _LOOP, _LOOP.replace("++h", "h += blockDim.z - 1"), _ENDS),
    ("all blocks turn the first batch", _PLACE, "(size_t)s * row", _RACE),
    ("v as well", _LOOP, _LOOP.replace("H + K", "H + 2 * K"), _LEFT),
    ("as many heads of k as of q", _LOOP, _LOOP.replace("H + K", "2 * H"), _INSIDE),
    ("positions without a gap", _PLACE, _PLACE.replace("row", "(H + 2 * K) * D"), _LEFT),
    ("no turn where the angle is 0", _OF, f"{_OF}\n    if (c == 1.0f && n == 0.0f) return;", _ANY_SIZE),
    ("no turn where the sine is 0", _OF, f"{_OF}\n    if (n == 0.0f) return;", _TURNED),
    ("q alone", _LOOP, _LOOP.replace("H + K", "H"), _TURNED),
    ("one head of k", _LOOP, _LOOP.replace("H + K", "H + 1"), _TURNED),
    ("k alone", _LOOP, _LOOP.replace("h = 0", "h = H"), _TURNED),
    ("eight heads at most", _LOOP, _LOOP.replace("H + K", "min(H + K, 8)"), _TURNED),
    ("128 heads at most", _LOOP, _LOOP.replace("H + K", "min(H + K, 128)"), _TURNED),
    ("32 pairs at most", _GUARD, _GUARD.replace("D / 2", "min(D / 2, 32)"), _TURNED),
    ("256 positions at most", _GUARD, _GUARD.replace(">= S", ">= min(S, 256)"), _TURNED),
    ("whole blocks of positions only", _GUARD, _GUARD.replace(">= S", ">= S / 4 * 4"), _TURNED),
    ("late from position 200 on", _AT, _AT.replace("s *", "(s < 200 ? s : s - 1) *"), _ANY_SIZE),
    ("no sine", _OF, _OF.replace("sin[at]", "0.0f"), _LENGTH),
    ("the cosine twice", _OF, _OF.replace("sin[at]", "cos[at]"), _LENGTH),
    ("cosines rounded far", _OF, _OF.replace("cos[at]", "rintf(cos[at] * 8) / 8"), _LENGTH),
    ("the angles of each head", _LOOP, f"{_LOOP}\n        {_OF}", _ANGLES),
    ("every fourth lane at a time", _LOOP, f"{_QUARTERS.format('threadIdx.x % 4')}\n    {_LOOP}", _LOADS),
    ("eight lanes at a time", _LOOP, f"{_EIGHT}\n    {_LOOP}", _LANES),
    ("a barrier for each head", _LOOP, f"{_LOOP}\n        if (D % 64 == 0) __syncthreads();", _BARRIERS),
    ("threads that are counted", _LOOP, f"__shared__ int many;\n    atomicAdd(&many, 1);\n    {_LOOP}", _ATOMICS),
    ("places in 32 bits", _PLACE, "((int)blockIdx.z * S + s) * row", _FAR),
    ("places in 32 bits without a sign", _PLACE, "(blockIdx.z * S + s) * row", _FAR),
    ("batches in 32 bits", _PLACE, "(size_t)s * row + (int)blockIdx.z * S * row", _FAR),
    ("positions of a batch in 32 bits", _PLACE, "(size_t)blockIdx.z * S * row + (unsigned)s * row", _FAR),
)
_OWN_VALUES = (
    ("the other direction", _OF, _OF.replace("sin[at]", "-sin[at]")),
    ("sine and cosine exchanged", _OF, _OF.replace("cos[at], n = sin", "sin[at], n = cos")),
    ("the angles of the first position", _AT, "const int at = pair;"),
    ("the angles of the position before", _AT, _AT.replace("s *", "max(s - 1, 0) *")),
    ("the angles of the block's positions", _AT, _AT.replace("s *", "threadIdx.y % S *")),
    ("the angles of the first pair", _AT, _AT.replace("+ pair", "+ 0 * pair")),
)
_HALVES_HEAD = """__global__ void turn_halves(float* qkv, const float* cos, const float* sin,
                            int S, int H, int K, int D, int row)
{
    // BEGIN SOLUTION"""
_BACK_HEAD = """__global__ void turn_back(__nv_bfloat16* grad, const float* cos,
                          const float* sin, int S, int H, int K, int D,
                          int row)
{
    // BEGIN SOLUTION"""
_NOTE = "__device__ int noted;\n{}\n    if (blockIdx.x + blockIdx.y + blockIdx.z + threadIdx.x + threadIdx.y == 0) noted = D;"
_ONE_WARP = """if (threadIdx.y) return;
    for (int s = 4 * blockIdx.y; s < min(S, 4 * (int)blockIdx.y + 4); ++s) {{
    if (pair >= D / 2) continue;
    {angles}
    {rest}
    }}"""
_REST_HALVES = f"float* x = qkv + {_PLACE} + pair;\n    {_LOOP}\n        {_FULL}\n    }}"
_REST_BACK = (
    f"grad += {_PLACE};\n    auto* x = (__nv_bfloat162*)grad + pair;\n    {_LOOP}\n        {_PAIR}\n"
    f"        {_FORMULA}\n        {_STORE}\n    }}"
)
_WHOLE = f"{_POSITION}\n    {_GUARD}\n    {_AT}\n    {_OF}\n    "


def _in_16(value: str) -> str:
    return f"__bfloat162float(__float2bfloat16({value}))"


def _one_warp(rest: str) -> str:
    rest = rest.replace("grad += ", "auto* of = grad + ").replace("(__nv_bfloat162*)grad", "(__nv_bfloat162*)of")
    return _ONE_WARP.format(angles=f"{_AT}\n    {_OF}", rest=rest)


MUTANTS = [
    Mutant(name, *mutant)
    for name, value in (("turn_halves", _RIGHT), ("turn_back", _BACK))
    for mutant in (*_COMMON, *((*one, value) for one in _OWN_VALUES))
]
MUTANTS += [
    Mutant("turn_halves", mistake, search, replace, broken)
    for mistake, search, replace, broken in (
        ("heads of k beside those of q", _LOOP, "for (int h = 0; h < H + min(H, K); ++h) {", _TURNED),
        (
            "two floats at once, wherever a row begins",
            _BOTH,
            "const float2 of = pair % 2 || D % 4 ? make_float2(x[h * D], 0.0f) : *(float2*)(x + h * D);\n"
            "        const float a = of.x, b = x[h * D + D / 2];",
            _INSIDE,
        ),
        (
            "two floats at once, wherever they lie",
            _BOTH,
            "const float2 of = *(float2*)(x + h * D);\n        const float a = of.x, b = x[h * D + D / 2];",
            _INSIDE,
        ),
        (
            "a thread for two features of two pairs",
            _FULL,
            """float* head = x - pair + h * D;
        for (int f = 2 * pair; f < 2 * pair + 2; ++f) {
            const int first = f % (D / 2), other = f < D / 2 ? f + D / 2 : first;
            const float c = cos[s * (D / 2) + first], n = sin[s * (D / 2) + first];
            head[f] = head[f] * c + (f < D / 2 ? -head[other] : head[other]) * n;
        }""",
            _RACE,
        ),
        ("the second from the new first", _B, _B.replace("a * n", "x[h * D] * n"), _LENGTH),
        ("two pluses", _A, _A.replace("-", "+"), _LENGTH),
        ("two minuses", _B, _B.replace("+ a", "- a"), _LENGTH),
        ("only the first half is written", _B, "", _LENGTH),
        (
            "neighbours",
            _REST_HALVES,
            _REST_HALVES.replace("+ pair", "+ 2 * pair").replace("D + D / 2]", "D + 1]"),
            _LENGTH,
        ),
        ("results with the bits of a half", _A, f"x[h * D] = {with_bits_of_a_half('a * c - b * n')};", _RIGHT),
        ("sines with the bits of a half", _OF, _OF.replace("sin[at]", with_bits_of_a_half("sin[at]")), _RIGHT),
        ("tiny pairs are left", _A, f"if (a * a + b * b < 1e-12f) continue;\n        {_A}", _TURNED),
        ("infinite pairs are left", _A, f"if (isinf(a) || isinf(b)) continue;\n        {_A}", _ANY_SIZE),
        ("read again", _A, _A.replace("b *", "((volatile float*)x)[h * D + D / 2] *"), _READ),
        (
            "read again where sizes are odd",
            _A,
            _A.replace("b *", "(D % 32 ? ((volatile float*)x)[h * D + D / 2] : b) *"),
            _READ,
        ),
        (
            "v is read, too",
            f"{_LOOP}\n        {_BOTH}",
            f"{_LOOP.replace('H + K', 'H + 2 * K')}\n"
            "        const float a = ((volatile float*)x)[h * D], b = ((volatile float*)x)[h * D + D / 2];\n"
            "        if (h >= H + K) continue;",
            _READ,
        ),
        ("products stored before sums", _A, f"((volatile float*)x)[h * D] = a * c;\n        {_A}", _WRITTEN),
        (
            "atomics in place of stores",
            _A,
            "atomicExch(&x[h * D], a * c - b * n);",
            _READ,
        ),
        (
            "stored by every fourth lane at a time",
            _A,
            f"{_QUARTERS.format('threadIdx.x % 4')}\n        {_A}",
            _STORES,
        ),
        ("one warp of a block does it all", f"{_WHOLE}{_REST_HALVES}", _one_warp(_REST_HALVES), _WARPS),
        (
            "the blocks of one batch do all",
            _REST_HALVES,
            f"if (blockIdx.z) return;\n    for (int z = 0; z < gridDim.z; ++z) {{\n"
            f"    {_REST_HALVES.replace('blockIdx.z', 'z')}\n    }}",
            _WARPS,
        ),
        ("a note is left in memory", _HALVES_HEAD, _NOTE.format(_HALVES_HEAD), _MEMORY),
    )
]
MUTANTS += [
    Mutant("turn_back", mistake, search, replace, broken)
    for mistake, search, replace, broken in (
        (
            "eight bytes at once",
            _PAIR,
            "const uint2 of = *(const uint2*)&x[h * (D / 2)];\n"
            "        const float2 p = {__uint_as_float(of.x << 16), __uint_as_float(of.x & 0xffff0000u)};",
            _INSIDE,
        ),
        ("results that a half has", _STORE, _STORE.replace("(a,", "(fminf(fmaxf(a, -65504), 65504),"), _LENGTH),
        ("two pluses", _FORMULA, _FORMULA.replace("-", "+"), _LENGTH),
        (
            "the second from the new first",
            _FORMULA,
            "const float a = p.x * c + p.y * n, b = p.y * c - a * n;",
            _LENGTH,
        ),
        ("the first of each pair alone", _STORE, _STORE.replace("(a, b)", "(a, p.y)"), _LENGTH),
        ("the two of a pair exchanged", _STORE, _STORE.replace("(a, b)", "(b, a)"), _BACK),
        (
            "four bits less",
            _STORE,
            _STORE.replace("(a, b)", "(__uint_as_float(__float_as_uint(a) & 0xfff00000u), b)"),
            _LENGTH,
        ),
        (
            "halves",
            _REST_BACK,
            f"""__nv_bfloat16* x = grad + {_PLACE} + pair;
    {_LOOP}
        const float p = x[h * D], q = x[h * D + D / 2];
        x[h * D] = __float2bfloat16(p * c + q * n), x[h * D + D / 2] = __float2bfloat16(q * c - p * n);
    }}""",
            _LENGTH,
        ),
        (
            "angles in bfloat16",
            _OF,
            _OF.replace("cos[at]", _in_16("cos[at]")).replace("sin[at]", _in_16("sin[at]")),
            _ONCE,
        ),
        ("a product in bfloat16", _FORMULA, _FORMULA.replace("p.y * n", _in_16("p.y * n")), _ONCE),
        (
            "two numbers, one after the other",
            _PAIR,
            "const volatile unsigned short* of = (const unsigned short*)&x[h * (D / 2)];\n"
            "        const unsigned one = of[0], two = of[1];\n"
            "        const float2 p = {__uint_as_float(one << 16), __uint_as_float(two << 16)};",
            _LOADS,
        ),
        (
            "two results, one after the other",
            _STORE,
            "volatile unsigned short* to = (unsigned short*)&x[h * (D / 2)];\n"
            "        to[0] = __bfloat16_as_ushort(__float2bfloat16(a));\n"
            "        to[1] = __bfloat16_as_ushort(__float2bfloat16(b));",
            _STORES,
        ),
        (
            "read again",
            _FORMULA,
            "const unsigned again = *(const volatile unsigned*)&x[h * (D / 2)];\n"
            "        const float a = p.x * c + __uint_as_float(again & 0xffff0000u) * n, b = p.y * c - p.x * n;",
            _READ,
        ),
        ("stored twice", _STORE, f"*(volatile unsigned*)&x[h * (D / 2)] = h;\n        {_STORE}", _WRITTEN),
        ("one warp of a block does it all", f"{_WHOLE}{_REST_BACK}", _one_warp(_REST_BACK), _WARPS),
        ("a note is left in memory", _BACK_HEAD, _NOTE.format(_BACK_HEAD), _MEMORY),
    )
]

_HEAD = """__global__ void turn_halves(float* qkv, const float* cos, const float* sin, int S, int H, int K,
                            int D, int row)
{
"""
_HEAD_BACK = """__global__ void turn_back(__nv_bfloat16* grad, const float* cos, const float* sin, int S, int H, int K,
                          int D, int row)
{
"""

ACCEPTED = {
    "turn_halves": {
        "a function, q and k in loops of their own": """__device__ void turn(float* a, float* b, float c, float n)
{
    float one = *a, two = *b;
    *a = fmaf(one, c, -two * n);
    *b = fmaf(two, c, one * n);
}
"""
        + _HEAD
        + """    int i = threadIdx.x + 32 * blockIdx.x, s = threadIdx.y + 4 * blockIdx.y, half = D / 2;
    if (i < half && s < S) {
        float c = cos[s * half + i], n = sin[s * half + i];
        float* q = qkv + (long long)row * (s + (long long)S * blockIdx.z);
        float* k = q + H * D;
        for (int h = 0; h < H; h++) turn(&q[h * D + i], &q[h * D + half + i], c, n);
        for (int h = 0; h < K; h++) turn(&k[h * D + i], &k[h * D + half + i], c, n);
    }
}""",
        "angles in shared memory, heads backwards": _HEAD
        + """    __shared__ float of[2][4][32];
    const int half = D / 2, pair = 32 * blockIdx.x + threadIdx.x, s = 4 * blockIdx.y + threadIdx.y;
    const bool mine = pair < half && s < S;
    of[0][threadIdx.y][threadIdx.x] = mine ? cos[s * half + pair] : 0;
    of[1][threadIdx.y][threadIdx.x] = mine ? sin[s * half + pair] : 0;
    __syncthreads();
    if (!mine) return;
    for (int h = H + K - 1; h >= 0; --h) {
        float* a = qkv + (size_t)(blockIdx.z * S + s) * row + h * D + pair;
        const float one = a[0], two = a[half];
        a[half] = two * of[0][threadIdx.y][threadIdx.x] + one * of[1][threadIdx.y][threadIdx.x];
        a[0] = one * of[0][threadIdx.y][threadIdx.x] - two * of[1][threadIdx.y][threadIdx.x];
    }
}""",
        "four heads on their way at once": _HEAD
        + """    const unsigned pair = blockIdx.x * 32 + threadIdx.x, s = blockIdx.y * 4 + threadIdx.y, half = D / 2;
    if (s >= S || pair >= half) return;
    float2 turn = make_float2(cos[s * half + pair], sin[s * half + pair]);
    float* x = qkv + (size_t(blockIdx.z) * S + s) * row + pair;
    for (int first = 0; first < H + K; first += 4) {
        float a[4], b[4];
#pragma unroll
        for (int h = 0; h < 4; ++h)
            if (first + h < H + K) a[h] = x[(first + h) * D], b[h] = x[(first + h) * D + half];
#pragma unroll
        for (int h = 0; h < 4; ++h)
            if (first + h < H + K) {
                x[(first + h) * D] = a[h] * turn.x - b[h] * turn.y;
                x[(first + h) * D + half] = a[h] * turn.y + b[h] * turn.x;
            }
    }
}""",
        "vectors of four pairs, lanes that share the heads": _HEAD
        + """    const int half = D / 2, s = blockIdx.y * 4 + threadIdx.y;
    if (s >= S) return;
    float* x = qkv + ((size_t)blockIdx.z * S + s) * row;
    if (half % 32 == 0 && row % 4 == 0) {
        const int pair = blockIdx.x * 32 + threadIdx.x % 8 * 4;
        const float4 c = *(const float4*)&cos[s * half + pair], n = *(const float4*)&sin[s * half + pair];
        for (int h = threadIdx.x / 8; h < H + K; h += 4) {
            float4* to = (float4*)&x[h * D + pair];
            const float4 a = to[0], b = to[half / 4];
            float4 one, two;
            one.x = a.x * c.x - b.x * n.x, one.y = a.y * c.y - b.y * n.y;
            one.z = a.z * c.z - b.z * n.z, one.w = a.w * c.w - b.w * n.w;
            two.x = b.x * c.x + a.x * n.x, two.y = b.y * c.y + a.y * n.y;
            two.z = b.z * c.z + a.z * n.z, two.w = b.w * c.w + a.w * n.w;
            to[0] = one, to[half / 4] = two;
        }
        return;
    }
    const int pair = blockIdx.x * 32 + threadIdx.x;
    if (pair >= half) return;
    const float c = cos[s * half + pair], n = sin[s * half + pair];
    for (int h = 0; h < H + K; ++h) {
        const float a = x[h * D + pair], b = x[h * D + half + pair];
        x[h * D + pair] = a * c - b * n;
        x[h * D + half + pair] = b * c + a * n;
    }
}""",
    },
    "turn_back": {
        "bits": _HEAD_BACK
        + """    const int i = blockIdx.x * blockDim.x + threadIdx.x, s = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= D / 2 || s >= S) return;
    const float c = cos[s * (D / 2) + i], n = -sin[s * (D / 2) + i];
    unsigned* x = (unsigned*)(grad + (size_t)(blockIdx.z * S + s) * row) + i;
    for (int h = 0; h < H + K; ++h, x += D / 2) {
        const unsigned both = *x;
        const float a = __uint_as_float(both << 16), b = __uint_as_float(both & 0xffff0000u);
        const unsigned one = __bfloat16_as_ushort(__float2bfloat16(a * c - b * n));
        const unsigned two = __bfloat16_as_ushort(__float2bfloat16(b * c + a * n));
        *x = one | two << 16;
    }
}""",
        "halves of a pair": _HEAD_BACK
        + """    int pair = blockIdx.x * 32 + threadIdx.x, s = blockIdx.y * 4 + threadIdx.y;
    if (pair >= D / 2) return;
    if (s >= S) return;
    float c = cos[s * (D / 2) + pair], n = sin[s * (D / 2) + pair];
    __nv_bfloat16* of = grad + (long long)(S * blockIdx.z + s) * row;
    for (int f = 2 * pair; f < (H + K) * D; f += D) {
        __nv_bfloat162* p = reinterpret_cast<__nv_bfloat162*>(of + f);
        const __nv_bfloat162 old = *p;
        const float a = __low2float(old), b = __high2float(old);
        *p = __halves2bfloat162(__float2bfloat16_rn(a * c + b * n), __float2bfloat16_rn(b * c - a * n));
    }
}""",
    },
}
