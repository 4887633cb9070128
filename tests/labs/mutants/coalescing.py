"""Mistakes in a permuted copy, and other ways to write it."""

from mutants import Mutant, with_bits_of_a_half

_INSIDE = "it stays inside its arrays"
_ENDS = "it runs to its end"
_WRITTEN = "every element of y is written"
_RIGHT = "y[b, h, s, d] is x[b, s, h, d]"
_ANY_SIZE = "also for sizes that are not powers of two"
_MANY = "also for millions of elements"
_READS = "x is read in the fewest sectors"
_WRITES = "y is written in the fewest sectors"
_SHARED = "the blocks share the work"
_OWN = "nothing passes through memory of its own"

_GUARD = "if (i >= B * S * H * D) return;"
_INDICES = """int d = i % D;
    int s = i / D % S;
    int h = i / D / S % H;
    int b = i / D / S / H;
    y[i] ="""
_X = "x[((b * S + s) * H + h) * D + d]"
_WHOLE = f"""__global__ void permuted_copy(float* y, const float* x,
                              int B, int S, int H, int D)
{{
    // BEGIN SOLUTION
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    {_GUARD}
    {_INDICES} {_X};"""
_PLACE = "y[((b * H + h) * S + s) * D + d] ="


def _numbered(indices: str, store: str = _PLACE) -> str:
    return f"{indices}\n    {store}"


def _four_at_once(condition: str) -> str:
    return f"""int width = {condition} ? 4 : 1;
    i *= width;
    {_GUARD}
    int d = i % D, s = i / D % S, h = i / D / S % H, b = i / D / S / H;
    if (width == 4) {{
        *(float4*)(y + i) = *(const float4*)(x + ((b * S + s) * H + h) * D + d);
        return;
    }}
    y[i] ="""


MUTANTS = [
    Mutant("permuted_copy", mistake, search, replace, broken)
    for mistake, search, replace, broken in (
        ("no guard", _GUARD, "", _INSIDE),
        ("a guard off by one", _GUARD, _GUARD.replace(">=", ">"), _INSIDE),
        ("a guard one too early", _GUARD, _GUARD.replace("D)", "D - 1)"), _WRITTEN),
        ("a guard of whole blocks", _GUARD, "if (blockIdx.x >= B * S * H * D / blockDim.x) return;", _WRITTEN),
        ("only one block", "blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x", _WRITTEN),
        ("blocks that overlap", "blockIdx.x * blockDim.x", "blockIdx.x * 32", _WRITTEN),
        ("heads and positions exchanged in x", "(b * S + s) * H + h", "(b * H + h) * S + s", _RIGHT),
        ("a stride of S where it is H", "(b * S + s) * H + h", "(b * S + s) * S + h", _INSIDE),
        ("no batch", "(b * S + s)", "s", _RIGHT),
        ("a size that is written down", "i / D % S", "i / D % 32", _INSIDE),
        ("shifts in place of divisions", "int d = i % D;", "int d = i & (D - 1);", _ANY_SIZE),
        (
            "quotients in float, by the reciprocals of the sizes",
            _INDICES,
            _numbered(
                """int rows = (i + 0.5f) * (1.0f / D), heads = (rows + 0.5f) * (1.0f / S);
    int d = i - rows * D, s = rows - heads * S, b = (heads + 0.5f) * (1.0f / H), h = heads - b * H;"""
            ),
            _MANY,
        ),
        (
            "quotients in float, as exact as floats are",
            _INDICES,
            _numbered(
                """int rows = (float)i / D, heads = (float)rows / S;
    int d = i - rows * D, s = rows - heads * S, b = (float)heads / H, h = heads - b * H;"""
            ),
            _MANY,
        ),
        (
            "quotients in float, from the middle of an element",
            _INDICES,
            _numbered(
                """int rows = (i + 0.5f) / D, heads = (rows + 0.5f) / S;
    int d = i - rows * D, s = rows - heads * S, b = (heads + 0.5f) / H, h = heads - b * H;"""
            ),
            _MANY,
        ),
        (
            "quotients in float, put right by one",
            _INDICES,
            _numbered(
                """auto divide = [](int n, int by) {
        int quotient = n * (1.0f / by), rest = n - quotient * by;
        return quotient + (rest >= by) - (rest < 0);
    };
    int rows = divide(i, D), heads = divide(rows, S), b = divide(heads, H);
    int d = i - rows * D, s = rows - heads * S, h = heads - b * H;"""
            ),
            _MANY,
        ),
        (
            "numbered by position first",
            _INDICES,
            _numbered("int s = i % S, d = i / S % D, h = i / S / D % H, b = i / S / D / H;"),
            _READS,
        ),
        (
            "numbered by head first, then position",
            _INDICES,
            _numbered("int h = i % H, s = i / H % S, d = i / H / S % D, b = i / H / S / D;"),
            _READS,
        ),
        (
            "numbered by head first, then element",
            _INDICES,
            _numbered("int h = i % H, d = i / H % D, s = i / H / D % S, b = i / H / D / S;"),
            _READS,
        ),
        (
            "the first block does it all",
            _INDICES,
            """if (blockIdx.x > 0) return;
    for (int each = i; each < B * S * H * D; each += blockDim.x) {
        int i = each, d = i % D, s = i / D % S, h = i / D / S % H, b = i / D / S / H;
        y[i] = x[((b * S + s) * H + h) * D + d];
    }
    return;
    int d, s, h, b;
    y[i] =""",
            _SHARED,
        ),
        (
            "the last block does it all",
            "int i = blockIdx.x * blockDim.x + threadIdx.x;",
            """if (blockIdx.x + 1 < gridDim.x) return;
    for (int i = threadIdx.x; i < B * S * H * D; i += blockDim.x) {
        int d = i % D, s = i / D % S, h = i / D / S % H, b = i / D / S / H;
        y[i] = x[((b * S + s) * H + h) * D + d];
    }
    return;
    int i = 0;""",
            _SHARED,
        ),
        (
            "the first block takes its share, and the second the rest",
            "int i = blockIdx.x * blockDim.x + threadIdx.x;",
            """if (blockIdx.x > 1) return;
    int first = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = first; i < B * S * H * D && (blockIdx.x || i == first); i += blockDim.x) {
        int d = i % D, s = i / D % S, h = i / D / S % H, b = i / D / S / H;
        y[i] = x[((b * S + s) * H + h) * D + d];
    }
    return;
    int i = 0;""",
            _SHARED,
        ),
        (
            "a stretch of eight for each thread",
            _INDICES,
            """int n = B * S * H * D;
    for (int each = 8 * i; each < min(8 * i + 8, n); ++each) {
        int i = each, d = i % D, s = i / D % S, h = i / D / S % H, b = i / D / S / H;
        y[i] = x[((b * S + s) * H + h) * D + d];
    }
    return;
    int d, s, h, b;
    y[i] =""",
            _READS,
        ),
        ("each element exchanged before", "y[i] =", "atomicExch(&y[i], 0.0f); y[i] =", _WRITES),
        (
            "each element written twice",
            "y[i] =",
            "y[B * S * H * D - 1 - i] = 0; y[i] =",
            "no two threads write different values to one element",
        ),
        (
            "a neighbour read, too",
            "y[i] =",
            "y[i] = x[((b * S + s) * H + h) * D + (d + 1) % D] == 1e30f ? 0 :",
            _READS,
        ),
        ("every element set to zero first", "y[i] =", "y[i] = 0; y[i] =", _WRITES),
        (
            "a shuffle for some threads only",
            "int d = i % D;",
            "int d = i % D; if (d == 0) __shfl_sync(~0u, d, 0);",
            _ENDS,
        ),
        ("a barrier for some threads only", "int d = i % D;", "int d = i % D; if (d == 0) __syncthreads();", _ENDS),
        ("four elements at once where D is even", _INDICES, _four_at_once("D % 2 == 0"), _INSIDE),
        ("four elements at once where rows of H × D are", _INDICES, _four_at_once("H * D % 4 == 0"), _INSIDE),
        ("96 elements of a head at most", "y[i] =", "if (d < 96) y[i] =", _WRITTEN),
        ("32 heads at most", "y[i] =", "if (h < 32) y[i] =", _WRITTEN),
        (
            "numbered by position first where 8 does not divide D",
            "y[i] =",
            """if (D % 8)
        s = i % S, d = i / S % D, h = i / S / D % H, b = i / S / D / H, i = ((b * H + h) * S + s) * D + d;
    y[i] =""",
            _READS,
        ),
        ("elements set to zero first where 8 does not divide D", "y[i] =", "if (D % 8) y[i] = 0; y[i] =", _WRITES),
        (
            "the first block does it all where D is odd",
            "int i = blockIdx.x * blockDim.x + threadIdx.x;",
            """if (D % 2) {
        for (int i = threadIdx.x; i < B * S * H * D && blockIdx.x == 0; i += blockDim.x) {
            int d = i % D, s = i / D % S, h = i / D / S % H, b = i / D / S / H;
            y[i] = x[((b * S + s) * H + h) * D + d];
        }
        return;
    }
    int i = blockIdx.x * blockDim.x + threadIdx.x;""",
            _SHARED,
        ),
        ("positions of 16 bits", "int s = i / D % S;", "short s = i / D % S;", _MANY),
        ("256 elements at most", "int d = i % D;", "unsigned char d = i % D;", _MANY),
        ("a store only where it changes y", "y[i] =", f"if (y[i] != {_X}) y[i] =", "nothing else is read"),
        (
            "each element by an exchange in shared memory",
            f"y[i] = {_X};",
            f"__shared__ float t[256]; atomicExch(&t[threadIdx.x], {_X}); y[i] = t[threadIdx.x];",
            "no atomics",
        ),
        ("four batches at most", "y[i] =", "if (b < 4) y[i] =", _WRITTEN),
        ("256 positions at most", "y[i] =", "if (s < 256) y[i] =", _WRITTEN),
        ("a place of 16 bits", _X, "x[(unsigned short)(((b * S + s) * H + h) * D + d)]", _ANY_SIZE),
        (
            "each element by an exchange",
            "y[i] = x[((b * S + s) * H + h) * D + d];",
            "atomicExch(&y[i], x[((b * S + s) * H + h) * D + d]);",
            _WRITES,
        ),
        (
            "a multiplication by the reciprocal of D",
            _INDICES,
            """float each = 1.0f / D;
    int rest = i * each, d = i - rest * D, s = rest % S, h = rest / S % H, b = rest / S / H;
    y[i] =""",
            _ANY_SIZE,
        ),
        (
            "two warps of a block do all",
            "int i = blockIdx.x * blockDim.x + threadIdx.x;",
            """for (int t = threadIdx.x; threadIdx.x < 64 && t < 256; t += 64) {
        int i = blockIdx.x * 256 + t;
        if (i >= B * S * H * D) break;
        int d = i % D, s = i / D % S, h = i / D / S % H, b = i / D / S / H;
        y[i] = x[((b * S + s) * H + h) * D + d];
    }
    return;
    int i = 0;""",
            _SHARED,
        ),
        (
            "each element by way of an array outside",
            _WHOLE,
            "__device__ float passed[1 << 20];\n" + _WHOLE.replace("y[i] =", "passed[i] =") + "\n    y[i] = passed[i];",
            _OWN,
        ),
        ("an int in place of a float", "y[i] =", "y[i] = (int)", _RIGHT),
        ("a sum with 0", "y[i] =", "y[i] = 0.0f +", _RIGHT),
        ("the bits of a half", f"{_X};", with_bits_of_a_half(_X) + ";", _RIGHT),
    )
]

_HEAD = """__global__ void permuted_copy(float* y, const float* x, int B, int S, int H, int D)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = B * S * H * D;
"""

ACCEPTED = {
    "permuted_copy": {
        "in the order of x": _HEAD
        + """    if (i >= n) return;
    int d = i % D, h = i / D % H, s = i / (D * H) % S, b = i / (D * H * S);
    y[((b * H + h) * S + s) * D + d] = x[i];
}""",
        "two elements a thread, half of the array apart": _HEAD
        + """    int half = (n + 1) / 2;
    for (int j = i; i < half && j < n; j += half) {
        int d = j % D, h = j / D % H, s = j / (D * H) % S, b = j / (D * H * S);
        y[((b * H + h) * S + s) * D + d] = x[j];
    }
}""",
        "grid stride, from the back": _HEAD
        + """    for (int j = n - 1 - i; j >= 0; j -= gridDim.x * blockDim.x) {
        int rest = j, d = rest % D; rest /= D;
        int s = rest % S; rest /= S;
        int h = rest % H, b = rest / H;
        y[j] = x[b * S * H * D + s * H * D + h * D + d];
    }
}""",
        "vector loads": _HEAD
        + """    int width = D % 4 ? 1 : 4, j = i * width;
    if (j >= n) return;
    int d = j % D, s = j / D % S, h = j / D / S % H, b = j / D / S / H;
    const float* from = x + ((b * S + s) * H + h) * D + d;
    if (width == 4) *(float4*)(y + j) = *(const float4*)from;
    else y[j] = *from;
}""",
        "a warp for each row of D elements": _HEAD
        + """    const int warps = gridDim.x * blockDim.x / 32, lane = threadIdx.x % 32;
    for (int row = i / 32; row < B * H * S; row += warps) {
        int s = row % S, h = row / S % H, b = row / S / H;
        for (int d = lane; d < D; d += 32) y[row * D + d] = x[((b * S + s) * H + h) * D + d];
    }
}""",
        "a function, and pointers that move": """__device__ float at(const float* x, int s, int h, int d, int H, int D)
{
    return x[(s * H + h) * D + d];
}
__global__ void permuted_copy(float* y, const float* __restrict__ x, int B, int S, int H, int D)
{
    unsigned i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i < (unsigned)B * S * H * D) {
        int batch_place = i % (S * H * D);
        x += i - batch_place;
        y[i] = at(x, batch_place / D % S, batch_place / (D * S), batch_place % D, H, D);
    }
}""",
    }
}
