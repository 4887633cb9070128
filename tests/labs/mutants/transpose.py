"""Mistakes in a transpose in place, and other ways to write it."""

from mutants import Mutant, with_bits_of_a_half

_INSIDE = "it stays inside its arrays"
_ENDS = "it runs to its end"
_RACE = "no race"
_CHANGED = "x is changed"
_RIGHT = "x becomes its transpose"
_TILE = "no element of a tile is read that was never written"
_ANY_SIZE = "also for sizes that are not multiples of the tile"
_READS = "x is read once, in the fewest sectors"
_WRITES = "x is written once, in the fewest sectors"
_BANKS = "no two lanes use different words of one bank"
_COME = "all threads reach each barrier and shuffle"
_SECOND = "there is no second matrix"

_SHARED = "the blocks share the work"

_HEAD = "__global__ void transpose_in_place(float* x, int N)\n{\n"
_RETURN = "if (blockIdx.x < blockIdx.y) return;"
_UPPER = "upper[j][t] = x[(top + j) * N + left + t];"
_ALL_TILES = """if (blockIdx.x + blockIdx.y) return;
    __shared__ float a[32][33], b[32][33];
    for (int left = 0; left < N; left += 32)
        for (int top = 0, t = threadIdx.x; top <= left; top += 32) {
            for (int j = threadIdx.y; j < 32; j += 8) {
                if (top + j < N && left + t < N) a[j][t] = x[(top + j) * N + left + t];
                if (top < left && left + j < N && top + t < N) b[j][t] = x[(left + j) * N + top + t];
            }
            __syncthreads();
            for (int j = threadIdx.y; j < 32; j += 8) {
                if (left + j < N && top + t < N) x[(left + j) * N + top + t] = a[t][j];
                if (top < left && top + j < N && left + t < N) x[(top + j) * N + left + t] = b[t][j];
            }
            __syncthreads();
        }
    return;"""

MUTANTS = [
    Mutant("transpose_in_place", mistake, search, replace, broken)
    for mistake, search, replace, broken in (
        ("both blocks of a pair at work", _RETURN, "", _RACE),
        ("the diagonal left out", _RETURN, _RETURN.replace("<", "<="), _RIGHT),
        ("all blocks return", _RETURN, "if (blockIdx.x < blockIdx.y + 9) return;", _CHANGED),
        ("no barrier", "__syncthreads();", "", _RACE),
        ("a barrier of warps only", "__syncthreads();", "__syncwarp();", _RACE),
        ("a shuffle for some", "__syncthreads();", "if (t < 7) __shfl_sync(~0u, t, 0);\n    __syncthreads();", _COME),
        ("a barrier that some threads miss", "__syncthreads();", "if (left + t < N) __syncthreads();", _COME),
        (
            "a ragged tile read down its columns",
            "if (top + j < N && left + t < N)\n            upper[j][t] = x[(top + j) * N + left + t];",
            """if (left + 32 > N) {
            if (top + t < N && left + j < N) upper[t][j] = x[(top + t) * N + left + j];
        } else if (top + j < N && left + t < N)
            upper[j][t] = x[(top + j) * N + left + t];""",
            _READS,
        ),
        ("no padding", "upper[32][33]", "upper[32][32]", _BANKS),
        ("padding by two", "lower[32][33]", "lower[32][34]", _BANKS),
        ("no guard of a load", "if (top + j < N && left + t < N)\n            upper", "upper", _INSIDE),
        (
            "a guard of rows alone",
            "if (left + j < N && top + t < N)\n            x",
            "if (left + j < N)\n            x",
            _INSIDE,
        ),
        (
            "a guard one too early",
            "if (left + j < N && top + t < N)\n            x",
            "if (left + j < N - 1 && top + t < N)\n            x",
            _RIGHT,
        ),
        (
            "whole tiles only",
            "if (top + j < N && left + t < N)\n            upper",
            "if (top + 32 <= N && left + 32 <= N)\n            upper",
            _TILE,
        ),
        (
            "a ragged edge left as it was",
            "if (left + j < N && top + t < N)\n            x",
            "if (left + j < N / 32 * 32 && top + t < N)\n            x",
            _ANY_SIZE,
        ),
        ("four tiles a side at most", _RETURN, _RETURN.replace(")", " || blockIdx.x > 3)"), _ANY_SIZE),
        (
            "a division by 0",
            "bool two = left != top;",
            "bool two = left != top; t %= N / left;",
            "x becomes its transpose",
        ),
        ("a trap left in", "bool two = left != top;", "bool two = left != top; if (N % 32) __trap();", _ENDS),
        (
            "a tile in global memory",
            f"{_HEAD}    // BEGIN SOLUTION\n    {_RETURN}\n    __shared__ float upper[32][33], lower[32][33];",
            f"__device__ float tiles[25][32][33];\n{_HEAD}    {_RETURN}\n    __shared__ float upper[32][33];\n"
            "    float (*lower)[33] = tiles[blockIdx.y * 5 + blockIdx.x];",
            _SECOND,
        ),
        ("the tiles not turned over", "upper[t][j]", "upper[j][t]", _RIGHT),
        ("the tiles confused", "= lower[t][j]", "= upper[t][j]", _RIGHT),
        ("one tile of a pair only", "if (two && top + j < N && left + t < N)", "if (false)", _RIGHT),
        ("the diagonal read twice", "if (two && left + j", "if (left + j", _READS),
        ("the diagonal read and written twice", "bool two = left != top;", "bool two = true;", _READS),
        (
            "tiles written twice",
            "x[(left + j) * N + top + t] = upper[t][j];",
            "x[(left + j) * N + top + t] = 0, x[(left + j) * N + top + t] = upper[t][j];",
            _WRITES,
        ),
        (
            "one block moves all tiles",
            _RETURN,
            _ALL_TILES,
            _SHARED,
        ),
        (
            "a last tile of one column left as it was",
            _RETURN,
            _RETURN.replace(")", " || (N % 32 == 1 && blockIdx.x + 1 == gridDim.x))"),
            _ANY_SIZE,
        ),
        (
            "elements swapped one by one where 32 does not divide N",
            _RETURN,
            """if (N % 32) {
        for (int j = threadIdx.y; j < 32; j += 8) {
            int r = blockIdx.y * 32 + j, c = blockIdx.x * 32 + threadIdx.x;
            if (r >= c || c >= N) continue;
            float a = x[r * N + c];
            x[r * N + c] = x[c * N + r];
            x[c * N + r] = a;
        }
        return;
    }
    """
            + _RETURN,
            _READS,
        ),
        (
            "one block moves all tiles where 32 does not divide N",
            _RETURN,
            "if (N % 32) {\n    " + _ALL_TILES + "\n    }\n    " + _RETURN,
            _SHARED,
        ),
        (
            "no padding where 32 does not divide N",
            "__shared__ float upper[32][33], lower[32][33];",
            """__shared__ float upper_tile[32 * 33], lower_tile[32 * 33];
    struct Rows { float* at; int width; __device__ float* operator[](int row) { return at + row * width; } };
    Rows upper{upper_tile, N % 32 ? 32 : 33}, lower{lower_tile, N % 32 ? 32 : 33};""",
            _BANKS,
        ),
        (
            "no store of a zero",
            "x[(left + j) * N + top + t] =",
            "if (upper[t][j]) x[(left + j) * N + top + t] =",
            _RIGHT,
        ),
        (
            "a row's place as a float",
            "x[(left + j) * N + top + t] =",
            "x[(int)((left + j) * (float)N) + top + t] =",
            "also for millions of elements",
        ),
        (
            "no store where both are equal",
            "if (left + j < N && top + t < N)\n            x",
            "if (left + j < N && top + t < N && (!two || upper[t][j] != lower[j][t]))\n            x",
            _RIGHT,
        ),
        ("a sum with 0", "= upper[t][j];", "= 0.0f + upper[t][j];", _RIGHT),
        (
            "edges stored along columns",
            "for (int j = threadIdx.y; j < 32; j += 8) {\n        if (left + j < N && top",
            """for (int j = threadIdx.y; left + 32 > N && j < 32; j += 8) {
        if (left + t < N && top + j < N) x[(left + t) * N + top + j] = upper[j][t];
        if (two && top + t < N && left + j < N) x[(top + t) * N + left + j] = lower[j][t];
    }
    for (int j = threadIdx.y; left + 32 <= N && j < 32; j += 8) {
        if (left + j < N && top""",
            _WRITES,
        ),
        ("the bits of a half", "upper[t][j];", with_bits_of_a_half("upper[t][j]") + ";", _RIGHT),
    )
]

ACCEPTED = {
    "transpose_in_place": {
        "a swizzle in place of padding": _HEAD
        + """    __shared__ float a[32][32], b[32][32];
    int c0 = blockIdx.x * 32, r0 = blockIdx.y * 32, c = threadIdx.x;
    if (c0 > r0) return;
    for (int r = threadIdx.y; r < 32; r += 8) {
        if (r0 + r < N && c0 + c < N) a[r][c ^ r] = x[(r0 + r) * N + c0 + c];
        if (c0 < r0 && c0 + r < N && r0 + c < N) b[r][c ^ r] = x[(c0 + r) * N + r0 + c];
    }
    __syncthreads();
    for (int r = threadIdx.y; r < 32; r += 8) {
        if (c0 + r < N && r0 + c < N) x[(c0 + r) * N + r0 + c] = a[c][r ^ c];
        if (c0 < r0 && r0 + r < N && c0 + c < N) x[(r0 + r) * N + c0 + c] = b[c][r ^ c];
    }
}""",
        "one tile in shared memory, one in registers": _HEAD
        + """    __shared__ float tile[32][33];
    int left = blockIdx.x * 32, top = blockIdx.y * 32, t = threadIdx.x;
    if (left < top) return;
    float mine[4];
    for (int k = 0; k < 4; ++k) {
        int j = threadIdx.y + 8 * k;
        if (top + j < N && left + t < N) tile[j][t] = x[(top + j) * N + left + t];
        if (left > top && left + j < N && top + t < N) mine[k] = x[(left + j) * N + top + t];
    }
    __syncthreads();
    for (int k = 0; k < 4; ++k) {
        int j = threadIdx.y + 8 * k;
        if (left + j < N && top + t < N) x[(left + j) * N + top + t] = tile[t][j];
    }
    if (left == top) return;
    __syncthreads();
    for (int k = 0; k < 4; ++k) tile[threadIdx.y + 8 * k][t] = mine[k];
    __syncthreads();
    for (int k = 0; k < 4; ++k) {
        int j = threadIdx.y + 8 * k;
        if (top + j < N && left + t < N) x[(top + j) * N + left + t] = tile[t][j];
    }
}""",
        "vector loads": _HEAD
        + """    __shared__ float tile[2][32][33];
    int t = threadIdx.y * 32 + threadIdx.x, j = t / 8, c = t % 8 * 4;
    int left = blockIdx.x * 32, top = blockIdx.y * 32;
    if (left < top) return;
    int tiles = left == top ? 1 : 2;
    for (int k = 0; k < tiles; ++k) {
        int rows = k ? left : top, columns = k ? top : left;
        if (N % 4 == 0) {
            if (rows + j >= N || columns + c >= N) continue;
            float4 four = *(const float4*)(x + (rows + j) * N + columns + c);
            float* to = &tile[k][j][c];
            to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
        } else {
            for (int r = threadIdx.y; r < 32; r += 8)
                if (rows + r < N && columns + threadIdx.x < N)
                    tile[k][r][threadIdx.x] = x[(rows + r) * N + columns + threadIdx.x];
        }
    }
    __syncthreads();
    for (int k = 0; k < tiles; ++k)
        for (int r = threadIdx.y; r < 32; r += 8) {
            int row = (k ? top : left) + r, column = (k ? left : top) + threadIdx.x;
            if (row < N && column < N) x[row * N + column] = tile[k][threadIdx.x][r];
        }
}""",
    }
}
