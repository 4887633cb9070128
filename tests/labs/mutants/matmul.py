"""Mistakes in a matrix product by tiles, and other ways to write it."""

from mutants import Mutant, with_bits_of_a_half

_INSIDE = "it stays inside its arrays"
_COME = "all threads reach each barrier and shuffle"
_ENDS = "it runs to its end"
_RACE = "no race, and no uninitialised read"
_WRITTEN = "every element of y is written"
_RIGHT = "y is the product of x and w"
_ANY_SIZE = "also for sizes that are not multiples of a tile"
_EMPTY = "also for K of 0"
_INFINITE = "also where values are infinite"
_ONCE = "a block loads each number of x and w once"
_SECTORS = "x and w come in the fewest sectors"
_BANKS = "hardly any bank conflicts"
_REUSED = "a thread uses what it reads from shared memory several times"
_STORES = "y is written once, in the fewest sectors"
_BARRIERS = "two barriers for each piece"
_ATOMICS = "no atomics"
_LOAD_X, _LOAD_W, _STORE_Y = "all warps load x", "all warps load w", "all warps store y"
_DETOUR = "nothing passes through memory of its own"

_HEAD = """__global__ void tiled_matmul(float* y, const float* x, const float* w,
                             int M, int N, int K)
{
"""
_TILES = "__shared__ float xs[64][16], ws[16][64];"
_FILL = "for (int at = t; at < 64 * 16; at += 256) {"
_IN_X = "bool inside = top + r < M && k + c < K;"
_IN_W = "inside = k + r < K && left + c < N;"
_X = "xs[r][c] = inside ? x[(top + r) * K + k + c] : 0.0f;"
_W = "ws[r][c] = inside ? w[(k + r) * N + left + c] : 0.0f;"
_FILLED = "__syncthreads();  // filled"
_READ = "__syncthreads();  // read"
_INNER = "for (int inner = 0; inner < 16; ++inner) {"
_READ_X = "x4[i] = xs[threadIdx.y + 16 * i][inner];"
_READ_W = "w4[i] = ws[inner][threadIdx.x + 16 * i];"
_ADD = "sums[r][c] += x4[r] * w4[c];"
_STORE = "if (i < M && j < N) y[i * N + j] = sums[n / 4][n % 4];"
_SUMS = "float sums[4][4] = {};"
_STEP = "for (int k = 0; k < K; k += 16) {"
_NAIVE = """for (int i = blockIdx.y * 64 + threadIdx.y; i < min(M, (int)blockIdx.y * 64 + 64); i += 16)
            for (int j = blockIdx.x * 64 + threadIdx.x; j < min(N, (int)blockIdx.x * 64 + 64); j += 16) {
                float sum = 0.0f;
                for (int k = 0; k < K; ++k) sum += x[i * K + k] * w[k * N + j];
                y[i * N + j] = sum;
            }"""

_AT_W = "w[(k + r) * N + left + c]"
_AT_X = "x[(top + r) * K + k + c]"
_PLACE_X = "int r = at / 16, c = at % 16;"
_PLACE_W = " r = at / 64, c = at % 64,"
_FROM_X, _FROM_W = "xs[threadIdx.y + 16 * r][inner]", "ws[inner][threadIdx.x + 16 * c]"
_OUTPUTS = """for (int n = 0; n < 16; ++n) {
        int i = top + threadIdx.y + n / 4 * 16;"""
_STORES_ALL = f"{_OUTPUTS}\n        int j = left + threadIdx.x + n % 4 * 16;\n        {_STORE}\n    }}"
_ONE_WARP = "if (at < 32)\n                for (int of = t; of < 1024; of += 32) {to} = {of} : 0.0f;"

MUTANTS = [
    Mutant("tiled_matmul", mistake, search, replace, broken)
    for mistake, search, replace, broken in (
        (
            "the next row of x beyond K",
            "bool inside = top + r < M && k + c < K;",
            "bool inside = (top + r) * K + k + c < M * K;",
            _INFINITE,
        ),
        ("no guard of x", _IN_X, "bool inside = true;", _INSIDE),
        ("no guard of rows of x", _IN_X, _IN_X.replace("top + r < M && ", ""), _INSIDE),
        ("no guard of columns of w", _IN_W, _IN_W.replace(" && left + c < N", ""), _INSIDE),
        ("no guard of rows of y", _STORE, _STORE.replace("i < M && ", ""), _INSIDE),
        (
            "loaded before the guard is asked",
            _X,
            "float read = x[(top + r) * K + k + c];\n            xs[r][c] = inside ? read : 0.0f;",
            _INSIDE,
        ),
        ("a tile of 15 columns", "xs[64][16]", "xs[64][15]", _INSIDE),
        (
            "four numbers at once, wherever a row begins",
            _W,
            "if (at % 4 == 0) *(float4*)&ws[r][c] = inside ? *(const float4*)&w[(k + r) * N + left + c] : float4{};",
            _INSIDE,
        ),
        ("threads without an output leave", _STEP, f"if (top + threadIdx.y >= M) return;\n    {_STEP}", _RACE),
        ("a barrier for those with an output", _FILLED, "if (left + threadIdx.x < N) __syncthreads();", _COME),
        ("a piece of no width", _STEP, _STEP.replace("+= 16", "+= M / 9 > 1 ? 16 : 0"), _ENDS),
        ("no barrier after filling", _FILLED, "", _RACE),
        ("no barrier before the next filling", _READ, "", _RACE),
        ("a barrier of warps only", _FILLED, "__syncwarp();", _RACE),
        ("no zeros beyond the matrices", _W, "if (inside) ws[r][c] = w[(k + r) * N + left + c];", _RACE),
        ("a quarter of each piece is filled", _FILL, _FILL.replace("64 * 16", "256"), _RACE),
        ("one output a thread", _OUTPUTS, _OUTPUTS.replace("< 16", "< 1"), _WRITTEN),
        ("nothing is written where K is 0", _SUMS, f"if (K == 0) return;\n    {_SUMS}", _WRITTEN),
        ("the last column left out", _STORE, _STORE.replace("j < N", "(j < N - 1 || N % 64 == 0)"), _WRITTEN),
        ("no guard of columns of y", _STORE, _STORE.replace(" && j < N", ""), _INSIDE),
        (
            "the sums begin anew with each piece",
            _INNER,
            f"for (auto& row : sums) for (float& one : row) one = 0.0f;\n        {_INNER}",
            _RIGHT,
        ),
        ("the last k of a piece left out", _INNER, _INNER.replace("< 16", "< 15"), _RIGHT),
        ("rows of w are K long", _W, _W.replace("* N", "* K"), _INSIDE),
        ("x as if it were turned", _READ_X, _READ_X.replace("threadIdx.y", "threadIdx.x"), _RIGHT),
        ("the numbers of x and w confused", _ADD, "sums[r][c] += x4[c] * w4[r];", _RIGHT),
        (
            "neighbouring columns of w, and outputs 16 apart",
            _READ_W,
            _READ_W.replace("x + 16 * i", "x * 4 + i"),
            _RIGHT,
        ),
        ("added to what is there", _STORE, _STORE.replace(" = sums", " += sums"), _WRITTEN),
        ("x with the bits of a half", _X, _X.replace(_AT_X, with_bits_of_a_half(_AT_X)), _RIGHT),
        (
            "sums with the bits of a half",
            _ADD,
            f"{_ADD[:-1]}, sums[r][c] = {with_bits_of_a_half('sums[r][c]')};",
            _RIGHT,
        ),
        ("whole pieces of K only", _STEP, _STEP.replace("k < K", "k + 16 <= K"), _ANY_SIZE),
        ("an index of 16 bits", _AT_W, "w[(unsigned short)((k + r) * N + left + c)]", _ANY_SIZE),
        ("256 numbers of a row at most", _STEP, _STEP.replace("k < K", "k < min(K, 256)"), _ANY_SIZE),
        (
            "the last column of x again and again",
            _X,
            "xs[r][c] = x[min(top + r, M - 1) * K + min(k + c, K - 1)];",
            _INFINITE,
        ),
        ("1 for K of 0", _SUMS, f"{_SUMS}\n    if (K == 0) sums[0][0] = 1.0f;", _EMPTY),
        (
            "w beyond K from somewhere else",
            _W,
            "ws[r][c] = left + c < N ? w[min(k + r, K - 1) * N + left + c] : 0.0f;",
            _INFINITE,
        ),
        ("x beyond K from the piece before", _X, f"if (k + c < K || k == 0) {_X}", _INFINITE),
        ("straight from global memory", _TILES, f"{_NAIVE}\n    return;\n    {_TILES}", _ONCE),
        (
            "registers filled from global memory",
            _READ_X,
            "const int at = top + threadIdx.y + 16 * i;\n"
            "                x4[i] = at < M && k + inner < K ? x[at * K + k + inner] : 0.0f;",
            _ONCE,
        ),
        (
            "straight from global memory where sizes are odd",
            _TILES,
            f"if (N % 64) {{\n        {_NAIVE}\n        return;\n    }}\n    {_TILES}",
            _ONCE,
        ),
        (
            "each number is loaded twice",
            _W,
            f"{_W}\n            if (inside && w[(k + r) * N + left + c] != ws[r][c]) __trap();",
            _ONCE,
        ),
        (
            "neighbours in a column of x",
            _PLACE_X,
            _PLACE_X.replace("at / 16, c = at % 16", "at % 64, c = at / 64"),
            _SECTORS,
        ),
        (
            "neighbours in a column of w",
            _PLACE_W,
            _PLACE_W.replace("at / 64, c = at % 64", "at % 16, c = at / 16"),
            _SECTORS,
        ),
        (
            "x lies turned, without padding",
            _TILES,
            """struct Rows { float (*of)[64]; int r; __device__ float& operator[](int c) { return of[c][r]; } };
    struct Turned { float (*of)[64]; __device__ Rows operator[](int r) { return {of, r}; } };
    __shared__ float turned[16][64], ws[16][64];
    Turned xs{turned};""",
            _BANKS,
        ),
        ("a tile, and nothing in registers", _ADD, f"sums[r][c] += {_FROM_X} * {_FROM_W};", _REUSED),
        ("w is read again for each row", _ADD, f"sums[r][c] += x4[r] * {_FROM_W};", _REUSED),
        (
            "nothing in registers where sizes are odd",
            _ADD,
            f"sums[r][c] += N % 64 ? {_FROM_X} * {_FROM_W} : x4[r] * w4[c];",
            _REUSED,
        ),
        ("sums are stored after every piece", _READ, f"{_READ}\n        {_STORES_ALL}", _STORES),
        ("a barrier at every k", _INNER, f"{_INNER}\n            __syncthreads();", _BARRIERS),
        (
            "outputs exchanged by atomics",
            _STORE,
            _STORE.replace("y[i * N + j] = sums[n / 4][n % 4]", "atomicExch(&y[i * N + j], sums[n / 4][n % 4])"),
            _STORES,
        ),
        (
            "pieces are counted by atomics",
            _READ,
            f"{_READ}\n        if (t == 0) atomicAdd(&xs[0][0], 1.0f);",
            _ATOMICS,
        ),
        (
            "one warp loads x",
            _X,
            _ONE_WARP.format(
                to="xs[of / 16][of % 16]",
                of="top + of / 16 < M && k + of % 16 < K ? x[(top + of / 16) * K + k + of % 16]",
            ),
            _LOAD_X,
        ),
        (
            "one warp loads w",
            _W,
            _ONE_WARP.format(
                to="ws[of / 64][of % 64]",
                of="k + of / 64 < K && left + of % 64 < N ? w[(k + of / 64) * N + left + of % 64]",
            ),
            _LOAD_W,
        ),
        (
            "one warp stores all outputs",
            _STORES_ALL,
            "__shared__ float all[64][80];\n    "
            + _STORES_ALL.replace(_STORE, "all[i - top][j - left] = sums[n / 4][n % 4];")
            + """
    __syncthreads();
    for (int at = t; t < 32 && at < 64 * 64; at += 32)
        if (top + at / 64 < M && left + at % 64 < N) y[(top + at / 64) * N + left + at % 64] = all[at / 64][at % 64];""",
            _STORE_Y,
        ),
        (
            "tiles in global memory",
            f"{_HEAD}    // BEGIN SOLUTION\n    {_TILES}",
            f"__device__ float tiles[64][2][1024];\n{_HEAD}    auto& tile = tiles[blockIdx.y * gridDim.x + blockIdx.x];\n"
            "    auto& xs = (float (&)[64][16])tile[0];\n    auto& ws = (float (&)[16][64])tile[1];",
            _ONCE,
        ),
        (
            "a copy to look at is left in",
            f"{_HEAD}    // BEGIN SOLUTION",
            f"__device__ int seen[8][64];\n{_HEAD}    if (threadIdx.x + threadIdx.y == 0) seen[blockIdx.y][blockIdx.x] = K;",
            _DETOUR,
        ),
        (
            "a piece without a number but 0 is skipped",
            _INNER,
            "bool any = false;\n        for (int n = 0; n < 64; ++n) any |= xs[threadIdx.y + n / 16 * 16][n % 16] != 0;\n"
            f"        if (any) {_INNER}",
            _INFINITE,
        ),
        *(
            (
                f"no products where a piece of {of} is 0",
                _FILLED,
                f"""__syncthreads();
        bool any = false;
        for (int at = t; at < 1024; at += 256) any |= {piece} != 0;
        if (!__syncthreads_or(any)) continue;""",
                _INFINITE,
            )
            for of, piece in (("x", "xs[at / 16][at % 16]"), ("w", "ws[at / 64][at % 64]"))
        ),
        ("a factor of 0 is skipped", _ADD, f"if (x4[r] != 0.0f) {_ADD}", _INFINITE),
        ("the other factor of 0 is skipped", _ADD, f"if (w4[c] != 0.0f) {_ADD}", _INFINITE),
        (
            "what is no number is dropped",
            _STORE,
            _STORE.replace(" = sums", " = isnan(sums[n / 4][n % 4]) ? 0 : sums"),
            _INFINITE,
        ),
        ("no rows beyond the second block", _STORE, _STORE.replace("i < M", "i < min(M, 128)"), _WRITTEN),
        ("places of x in 16 bits", _AT_X, "x[(unsigned short)((top + r) * K + k + c)]", _ANY_SIZE),
    )
]

ACCEPTED = {
    "tiled_matmul": {
        "vectors, four neighbouring columns a thread, x turned in its tile": _HEAD
        + """    __shared__ float xs[16][68];
    __shared__ float4 ws[16][16];
    const int t = threadIdx.y * 16 + threadIdx.x, i0 = blockIdx.y * 64, j0 = blockIdx.x * 64;
    float4 sums[4] = {};
    for (int k0 = 0; k0 < K; k0 += 16) {
        const int i = i0 + t / 4, k = k0 + t % 4 * 4, row = k0 + t / 16, j = j0 + t % 16 * 4;
        float x4[4] = {}, w4[4] = {};
        if (K % 4 == 0 && i < M && k < K) {
            *(float4*)x4 = *(const float4*)(x + (size_t)i * K + k);
        } else {
            for (int n = 0; n < 4; ++n) x4[n] = i < M && k + n < K ? x[(size_t)i * K + k + n] : 0;
        }
        if (N % 4 == 0 && row < K && j < N) {
            *(float4*)w4 = *(const float4*)(w + (size_t)row * N + j);
        } else {
            for (int n = 0; n < 4; ++n) w4[n] = row < K && j + n < N ? w[(size_t)row * N + j + n] : 0;
        }
        for (int n = 0; n < 4; ++n) xs[t % 4 * 4 + n][t / 4] = x4[n];
        ws[t / 16][t % 16] = {w4[0], w4[1], w4[2], w4[3]};
        __syncthreads();
        for (int n = 0; n < 16; ++n) {
            const float4 a = *(const float4*)&xs[n][4 * threadIdx.y], b = ws[n][threadIdx.x];
            const float a_values[4] = {a.x, a.y, a.z, a.w};
            for (int r = 0; r < 4; ++r) {
                sums[r].x += a_values[r] * b.x, sums[r].y += a_values[r] * b.y;
                sums[r].z += a_values[r] * b.z, sums[r].w += a_values[r] * b.w;
            }
        }
        __syncthreads();
    }
    for (int r = 0; r < 4; ++r) {
        const int i = i0 + 4 * threadIdx.y + r, j = j0 + 4 * threadIdx.x;
        if (i >= M || j >= N) continue;
        float* to = y + (size_t)i * N + j;
        if (N % 4 == 0) {
            *(float4*)to = sums[r];
        } else {
            const float of[4] = {sums[r].x, sums[r].y, sums[r].z, sums[r].w};
            for (int n = 0; n < 4 && j + n < N; ++n) to[n] = of[n];
        }
    }
}""",
        "two buffers and one barrier, the next piece on its way in registers": """struct Piece { float x[8], w[8]; };
"""
        + _HEAD
        + """    __shared__ float xs[2][64][33], ws[2][32][64];
    const int t = threadIdx.x + 16 * threadIdx.y;
    const int top = 64 * blockIdx.y, left = 64 * blockIdx.x, pieces = (K + 31) / 32;
    Piece next;
    float sums[16] = {0};
    for (int p = 0; p <= pieces; ++p) {
        if (p < pieces)
            for (int n = 0; n < 8; ++n) {
                const int i = top + t / 32 + 8 * n, k = p * 32 + t % 32;
                next.x[n] = i < M && k < K ? x[i * K + k] : 0;
                const int row = p * 32 + t / 64 + 4 * n, j = left + t % 64;
                next.w[n] = row < K && j < N ? w[row * N + j] : 0;
            }
        if (p > 0) {
            auto& x4 = xs[p % 2];
            auto& w4 = ws[p % 2];
            for (int k = 0; k < 32; ++k) {
                float b[4];
                for (int c = 0; c < 4; ++c) b[c] = w4[k][threadIdx.x + 16 * c];
                for (int r = 0; r < 4; ++r) {
                    const float a = x4[threadIdx.y * 4 + r][k];
                    for (int c = 0; c < 4; ++c) sums[4 * r + c] = fmaf(a, b[c], sums[4 * r + c]);
                }
            }
        }
        if (p < pieces)
            for (int n = 0; n < 8; ++n) {
                xs[(p + 1) % 2][t / 32 + 8 * n][t % 32] = next.x[n];
                ws[(p + 1) % 2][t / 64 + 4 * n][t % 64] = next.w[n];
            }
        __syncthreads();
    }
    for (int n = 0; n < 16; ++n) {
        const int i = top + threadIdx.y * 4 + n / 4, j = left + threadIdx.x + n % 4 * 16;
        if (i < M && j < N) y[i * N + j] = sums[n];
    }
}""",
        "eight rows and two columns a thread, a warp a row of 64, half of the warps for each tile": """#define DEEP 8
"""
        + _HEAD
        + """    __shared__ float x4[DEEP * 64], w4[DEEP * 64];
    const int t = threadIdx.y * 16 + threadIdx.x, lane = t % 32, warp = t / 32;
    double sums[8][2] = {};
    for (int k0 = 0; k0 < K; k0 += DEEP) {
        for (int n = t % 128; n < DEEP * 64; n += 128) {
            if (t < 128) {
                const int i = blockIdx.y * 64 + n / DEEP, k = k0 + n % DEEP;
                x4[n] = i < M && k < K ? x[(long long)i * K + k] : 0.0f;
            } else {
                const int k = k0 + n / 64, j = blockIdx.x * 64 + n % 64;
                w4[n] = k < K && j < N ? w[(long long)k * N + j] : 0.0f;
            }
        }
        __syncthreads();
        const int deep = min(DEEP, K - k0);
        for (int k = 0; k < deep; ++k) {
            const float b0 = w4[64 * k + lane], b1 = w4[64 * k + 32 + lane];
            for (int r = 0; r < 8; ++r) {
                const double a = x4[(warp * 8 + r) * DEEP + k];
                sums[r][0] += a * b0, sums[r][1] += a * b1;
            }
        }
        __syncthreads();
    }
    for (int r = 0; r < 8; ++r)
        for (int c = 0; c < 2; ++c) {
            const int i = blockIdx.y * 64 + warp * 8 + r, j = blockIdx.x * 64 + 32 * c + lane;
            if (i < M && j < N) y[(long long)i * N + j] = (float)sums[r][c];
        }
}""",
    }
}
