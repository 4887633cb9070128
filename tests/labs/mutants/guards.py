"""Mistakes in which thread takes which pixel, and other ways to write it."""

from mutants import Mutant, with_bits_of_a_half

_INSIDE = "it stays inside its arrays"
_ENDS = "it runs to its end"
_RACE = "no race"
_ONCE = "no pixel is computed twice"
_PADDING = "the padding of y is left alone"
_WRITTEN = "every pixel is written"
_FAR = "also where an index needs 64 bits"
_RIGHT = "y is (x / 255 − mean) / std"
_ANY_SIZE = "also for an image that the blocks do not divide"
_ANY_GRID = "also for other images and grids"
_LANES = "the lanes of a warp share the work"
_BLOCKS = "the blocks share the work"

_GUARD = "if (i < H && j < W)"
_PLACE = """int j = blockIdx.x * blockDim.x + threadIdx.x;
    long long i = blockIdx.y * blockDim.y + threadIdx.y;"""
_PIXEL = """float value = x[i * x_stride + j] / 255.0f;
        y[i * y_stride + j] = (value - mean) / std;"""
_ROWS = "for (long long i = first_i; i < H; i += rows)"
_COLUMNS = "for (int j = first_j; j < W; j += columns)"

# All pixels by one number, and then no row.
_PIXELS = """const {0} threads = blockDim.x * blockDim.y, pixels = H * W;
    const {0} first = (blockIdx.y * gridDim.x + blockIdx.x) * threads + threadIdx.y * blockDim.x + threadIdx.x;
    for ({0} p = first; p < pixels; p += gridDim.x * gridDim.y * threads)
        y[(size_t)(p / W) * y_stride + p % W] = (x[(size_t)(p / W) * x_stride + p % W] / 255.0f - mean) / std;
    for (long long i = H; i < H; ++i)"""

MUTANTS = [
    Mutant("normalise", mistake, search, replace, broken)
    for mistake, search, replace, broken in (
        ("no guard", _GUARD, "", _INSIDE),
        ("no guard of the rows", "i < H && ", "", _INSIDE),
        ("no guard of the columns", " && j < W", "", _INSIDE),
        ("one guard for both", _GUARD, "if (i * W + j < H * W)", _RACE),
        ("a guard that takes either", "&&", "||", _INSIDE),
        ("columns off by one", "j < W", "j <= W", _INSIDE),
        ("columns up to the stride of y", "j < W", "j < y_stride", _INSIDE),
        ("rows off by one", "i < H", "i <= H", _INSIDE),
        ("columns one too few", "j < W", "j < W - 1", _WRITTEN),
        ("whole blocks only", "i < H &&", "blockIdx.y < H / blockDim.y &&", _WRITTEN),
        ("guards exchanged", _GUARD, "if (i < W && j < H)", _INSIDE),
        ("x and y exchanged", "int j = blockIdx.x * blockDim.x", "int j = blockIdx.y * blockDim.x", _WRITTEN),
        ("only the first block", "blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x", _WRITTEN),
        ("rows as long as the image is wide", "x[i * x_stride + j]", "x[i * W + j]", _RIGHT),
        ("the same of y", "y[i * y_stride + j]", "y[i * W + j]", _PADDING),
        ("the stride of x for both", "y[i * y_stride + j]", "y[i * x_stride + j]", _INSIDE),
        ("a width that is written down", "x[i * x_stride + j]", "x[i * (W % 8 ? W : x_stride) + j]", _ANY_SIZE),
        ("a quotient of whole numbers", "255.0f", "255", _RIGHT),
        ("256 values, not 255", "255.0f", "256.0f", _RIGHT),
        ("an int in place of a float", "float value", "int value", _RIGHT),
        ("the mean forgotten", "(value - mean) / std", "value / std", _RIGHT),
        ("the mean divided by nothing", "(value - mean) / std", "value - mean / std", _RIGHT),
        ("every row twice", "if (i", "for (int twice = 0; twice < 2; ++twice) if (i", _ONCE),
        ("the bits of a half", "(value - mean) / std;", with_bits_of_a_half("(value - mean) / std") + ";", _RIGHT),
        (
            "the first block does it all",
            "int j = blockIdx.x",
            """if (blockIdx.x + blockIdx.y > 0) return;
    for (int i = threadIdx.y; i < H; i += blockDim.y)
        for (int j = threadIdx.x; j < W; j += blockDim.x)
            y[i * y_stride + j] = (x[i * x_stride + j] / 255.0f - mean) / std;
    return;
    int j = blockIdx.x""",
            _BLOCKS,
        ),
        ("a row's number of eight bits", "y[i * y_stride + j] =", "y[(unsigned char)i * y_stride + j] =", _RACE),
        ("255 rows at most", "i < H &&", "i < min(H, 255) &&", _WRITTEN),
        (
            "one lane of a warp does all of its pixels",
            "if (i < H && j < W) {",
            """if (j % 32 == 0 && blockDim.x == 32)
        for (int k = 0; k < 32; ++k)
            if (i < H && j + k < W) y[i * y_stride + j + k] = (x[i * x_stride + j + k] / 255.0f - mean) / std;
    if (i < H && j < W && blockDim.x != 32) {""",
            _LANES,
        ),
        (
            "a block that is written down",
            _PLACE,
            _PLACE.replace("blockDim.x", "32").replace("blockDim.y", "4"),
            _WRITTEN,
        ),
        (
            "x read before the guard of the columns",
            f"{_GUARD} {{\n        float value = x[i * x_stride + j] / 255.0f;",
            f"float value = i < H ? x[i * x_stride + j] / 255.0f : 0;\n    {_GUARD} {{",
            _INSIDE,
        ),
        (
            "x read before the guard of both",
            f"{_GUARD} {{\n        float value = x[i * x_stride + j] / 255.0f;",
            f"float value = x[i * x_stride + j] / 255.0f;\n    {_GUARD} {{",
            _INSIDE,
        ),
        ("an index of y in 32 bits", "y[i * y_stride + j] =", "y[(int)i * y_stride + j] =", _FAR),
        ("an index of x in 32 bits", "x[i * x_stride + j]", "x[(int)i * x_stride + j]", _FAR),
        ("an index of y in 32 bits, unsigned", "y[i * y_stride + j] =", "y[(unsigned)i * y_stride + j] =", _FAR),
        ("an index of x in 32 bits, unsigned", "x[i * x_stride + j]", "x[(unsigned)i * x_stride + j]", _FAR),
        ("a row's place as a float", "y[i * y_stride + j] =", "y[(long long)((float)i * y_stride) + j] =", _FAR),
        ("a column of 15 bits", "int j = blockIdx", "short j = blockIdx", _FAR),
        ("no division by less than 10⁻⁶", "/ std;", "/ fmaxf(std, 1e-6f);", _ANY_SIZE),
        (
            "NaN in the padding",
            _GUARD,
            f"if (i < H && j >= W && j < y_stride) y[i * y_stride + j] = NAN;\n    {_GUARD}",
            _PADDING,
        ),
        ("mean and std exchanged", "float mean, float std", "float std, float mean", _RIGHT),
        ("a signed byte", "= x[i", "= (signed char)x[i", _RIGHT),
        (
            "one thread does it all where W is odd",
            "int j = blockIdx.x",
            """if (W % 2) {
        if (blockIdx.x + blockIdx.y + threadIdx.x + threadIdx.y) return;
        for (int i = 0; i < H; ++i)
            for (int j = 0; j < W; ++j) y[i * y_stride + j] = (x[i * x_stride + j] / 255.0f - mean) / std;
        return;
    }
    int j = blockIdx.x""",
            _BLOCKS,
        ),
        (
            "vectors whatever the strides are",
            _GUARD,
            """if (i < H && 4 * j + 3 < W) {
        uchar4 four = *(const uchar4*)(x + i * x_stride + 4 * j);
        float* to = y + i * y_stride + 4 * j;
        *(float4*)to = make_float4((four.x / 255.0f - mean) / std, (four.y / 255.0f - mean) / std,
                                   (four.z / 255.0f - mean) / std, (four.w / 255.0f - mean) / std);
    }
    if (i < H && j < W && j >= W / 4 * 4)""",
            _INSIDE,
        ),
        ("a barrier for some threads", _PIXEL, "__syncthreads(); " + _PIXEL, _ENDS),
    )
] + [
    Mutant("normalise_loop", mistake, search, replace, broken)
    for mistake, search, replace, broken in (
        ("no loop over columns", _COLUMNS, "if (int j = first_j; j < W)", _WRITTEN),
        ("no loop over rows", _ROWS, "if (int i = first_i; i < H)", _WRITTEN),
        ("steps of a block", "gridDim.x * blockDim.x", "blockDim.x", _ONCE),
        ("steps of one grid in the other direction", "gridDim.y * blockDim.y", "gridDim.x * blockDim.x", _WRITTEN),
        ("every thread does all columns", "int j = first_j; j < W; j += columns", "int j = 0; j < W; ++j", _ONCE),
        ("columns off by one", "j < W; j", "j <= W; j", _INSIDE),
        ("columns up to the stride", "j < W; j", "j < y_stride; j", _INSIDE),
        ("rows off by one", "i < H; i", "i <= H; i", _INSIDE),
        ("a pixel beyond each row", "y[i", "if (j == first_j) y[i * y_stride + W] = 0;\n        y[i", _PADDING),
        ("blocks that overlap", "int first_j = blockIdx.x * blockDim.x", "int first_j = blockIdx.x", _WRITTEN),
        ("a width that is written down", "x[i * x_stride + j]", "x[i * (W % 8 ? W : x_stride) + j]", _ANY_GRID),
        ("steps of a row less", "i += rows", "i += max(rows - 1, 1)", _ONCE),
        ("zeros first, by every block", "int rows =", "for (int k = 0; k < W; ++k) y[k] = 0;\n    int rows =", _RACE),
        ("a quotient of whole numbers", "255.0f", "255", _RIGHT),
        (
            "one thread does it all",
            "int rows = ",
            "if (first_i + first_j) return; first_i = first_j = 0; const int one = 1;\n#define columns one\n"
            "#define rows one\n    int whatever = ",
            _LANES,
        ),
        (
            "the first block does it all",
            "int rows = gridDim.y * blockDim.y;",
            "if (blockIdx.x + blockIdx.y) return;\n    columns = blockDim.x;\n    int rows = blockDim.y;",
            _BLOCKS,
        ),
        (
            "one thread does it all where W is odd",
            "int rows = gridDim.y * blockDim.y;",
            """int rows = gridDim.y * blockDim.y;
    if (W % 2) {
        if (first_i + first_j) return;
        rows = columns = 1;
    }""",
            _BLOCKS,
        ),
        (
            "the blocks of the first column do it all",
            "int columns = gridDim.x * blockDim.x;",
            "if (blockIdx.x > 0) return;\n    int columns = blockDim.x;",
            _BLOCKS,
        ),
        ("a barrier in the loop", "float value", "__syncthreads();\n            float value", _ENDS),
        ("rows counted in 32 bits", "for (long long i", "for (int i", _FAR),
        ("rows counted in 32 bits, unsigned", "for (long long i", "for (unsigned i", _FAR),
        ("pixels counted in 32 bits", _ROWS, _PIXELS.format("int"), _FAR),
        ("pixels counted in 32 bits, unsigned", _ROWS, _PIXELS.format("unsigned"), _FAR),
        ("an index of y in 32 bits", "y[i * y_stride + j] =", "y[(int)i * y_stride + j] =", _FAR),
        ("an index of x in 32 bits", "x[i * x_stride + j]", "x[(int)i * x_stride + j]", _FAR),
    )
]

_HEAD = """__global__ void {}(float* y, const unsigned char* x, float mean, float std,
    int H, int W, int x_stride, int y_stride)
{{
"""

ACCEPTED = {
    "normalise": {
        "early return, pointers that move": _HEAD.format("normalise")
        + """    unsigned j = threadIdx.x + blockDim.x * blockIdx.x, i = threadIdx.y + blockDim.y * blockIdx.y;
    if (j >= W) return;
    if (i >= H) return;
    x += (long long)i * x_stride;
    y += (long long)i * y_stride;
    y[j] = ((float)x[j] / 255 - mean) / std;
}""",
        "multiplied in place of divided": _HEAD.format("normalise")
        + """    int j = blockIdx.x * blockDim.x + threadIdx.x;
    long long i = blockIdx.y * blockDim.y + threadIdx.y;
    float scale = 1 / (255.0f * std), shift = -mean / std;
    if (i < H && j < W) y[i * y_stride + j] = fmaf(x[i * x_stride + j], scale, shift);
}""",
        "vector loads": _HEAD.format("normalise")
        + """    int j = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    long long i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= H || j >= W) return;
    const unsigned char* from = x + i * x_stride + j;
    float* to = y + i * y_stride + j;
    if (j + 3 < W && x_stride % 4 == 0 && y_stride % 4 == 0) {
        uchar4 v = *(const uchar4*)from;
        *(float4*)to = make_float4((v.x / 255.0f - mean) / std, (v.y / 255.0f - mean) / std,
                                   (v.z / 255.0f - mean) / std, (v.w / 255.0f - mean) / std);
    } else {
        for (int k = 0; k < 4 && j + k < W; ++k) to[k] = (from[k] / 255.0f - mean) / std;
    }
}""",
    },
    "normalise_loop": {
        "threads numbered through, one loop": _HEAD.format("normalise_loop")
        + """    int block = blockIdx.y * gridDim.x + blockIdx.x;
    int thread = block * blockDim.x * blockDim.y + threadIdx.y * blockDim.x + threadIdx.x;
    int threads = gridDim.x * gridDim.y * blockDim.x * blockDim.y;
    for (long long k = thread; k < (long long)H * W; k += threads) {
        long long i = k / W, j = k % W;
        y[i * y_stride + j] = (x[i * x_stride + j] / 255.0f - mean) / std;
    }
}""",
        "columns outside, from the back": _HEAD.format("normalise_loop")
        + """    for (int j = W - 1 - (int)(blockIdx.x * blockDim.x + threadIdx.x); j >= 0; j -= gridDim.x * blockDim.x)
        for (long long i = H - 1 - (int)(blockIdx.y * blockDim.y + threadIdx.y); i >= 0; i -= gridDim.y * blockDim.y)
            y[i * y_stride + j] = (x[i * x_stride + j] / 255.0f - mean) / std;
}""",
        "a stretch of columns for each thread": _HEAD.format("normalise_loop")
        + """    int threads = gridDim.x * blockDim.x, each = (W + threads - 1) / threads;
    int first = each * (blockIdx.x * blockDim.x + threadIdx.x);
    for (int i = blockIdx.y * blockDim.y + threadIdx.y; i < H; i += gridDim.y * blockDim.y) {
        const unsigned char* from = x + (size_t)i * x_stride;
        float* to = y + (size_t)i * y_stride;
        for (int j = first; j < first + each && j < W; ++j) to[j] = (from[j] / 255.0f - mean) / std;
    }
}""",
    },
}
