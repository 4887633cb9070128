"""Mistakes in the drills, and other ways to write them."""

from mutants import Mutant
from mutants.first_steps.right import ACCEPTED

__all__ = ["ACCEPTED", "MUTANTS"]

_INSIDE = "it stays inside its arrays"
_MEETS = "all threads reach each barrier and shuffle"
_ENDS = "it runs to its end"
_RACE = "no race"
_KNOWN = "nothing is read before it is written"
_WRITTEN = "every element of y is written"
_ONCE = "x is loaded once"
_READS = "x is read in the fewest sectors"
_ONE_EACH = "each thread has one element"
_SPARE = "spare threads touch nothing"
_PRODUCT = "y[i] is a[i] × b[i]"
_TRIANGLE = "y[i, j] is x[i, j] where j ≤ i, and 0 elsewhere"
_DIFFERENCE = "y[i] is x[i] minus the element before it in its block"
_SOFTMAX = "y[i, j] is exp(x[i, j]) divided by the sum of its row"
_TILE = "y[i, j] is the sum of a[i, k] × b[k, j]"
_WINDOW = "y[i] is the sum of w[k] × x[i + k]"
_DOT = "y[0] is the sum of a[i] × b[i]"

_TIMES = "tile[t] - (t > 0) * tile[max(t - 1, 0)]"
_BARRIER = "__syncthreads();"
_STORED = "y[to_row * M + to_column] = tile[column][row];"
_LEFT = "float left = t >= step ? sum[t - step] : 0;"

MUTANTS = [
    Mutant(drill, mistake, search, replace, broken)
    for drill, mistake, search, replace, broken in (
        ("map", "10 times", "x[i] + 10", "x[i] * 10", "y[i] is x[i] + 10"),
        ("map", "one element further", "x[i]", "x[i + 1]", _INSIDE),
        ("map", "of integers", "x[i] + 10", "(int)x[i] + 10", "y[i] is x[i] + 10"),
        (
            "map",
            "one thread has all",
            "y[i] = x[i] + 10;",
            "for (int k = 0; i == 0 && k < blockDim.x; k++) y[k] = x[k] + 10;",
            _ONE_EACH,
        ),
        ("map", "a loop without an end", "y[i] =", "while (true) y[i] =", _ENDS),
        ("zip", "a sum", "a[i] * b[i]", "a[i] + b[i]", _PRODUCT),
        (
            "zip",
            "by squares",
            "a[i] * b[i]",
            "((a[i] + b[i]) * (a[i] + b[i]) - a[i] * a[i] - b[i] * b[i]) / 2",
            _PRODUCT,
        ),
        (
            "zip",
            "one thread has all",
            "y[i] = a[i] * b[i];",
            "for (int k = 0; i == 0 && k < blockDim.x; k++) y[k] = a[k] * b[k];",
            _ONE_EACH,
        ),
        ("zip", "no product where a is 0", "a[i] * b[i]", "a[i] != 0 ? a[i] * b[i] : 0", _PRODUCT),
        ("zip", "no product where b is 0", "a[i] * b[i]", "b[i] != 0 ? a[i] * b[i] : 0", _PRODUCT),
        ("zip", "only the first", "= threadIdx.x", "= 0", _WRITTEN),
        ("guard", "none", "if (i < n)", "", _INSIDE),
        ("guard", "the last element again", "if (i < n)", "i = min(i, n - 1);\n   ", _ENDS),
        (
            "guard",
            "spare threads that store the last again",
            "if (i < n)",
            "if (n == 0) return;\n    i = min(i, n - 1);\n   ",
            _SPARE,
        ),
        ("guard", "no zeros", "if (i < n)", "if (i < n && x[i] != 0)", _WRITTEN),
        ("guard", "one too many", "i < n", "i <= n", _INSIDE),
        ("guard", "one too few", "i < n", "i < n - 1", _WRITTEN),
        ("guard", "twice in place of the square", "x[i] * x[i]", "2 * x[i]", "y[i] is x[i] × x[i]"),
        ("blocks", "thread numbers without blocks", "blockIdx.x * blockDim.x + ", "", _WRITTEN),
        ("blocks", "numbers of 16 bits", "int i =", "unsigned short i =", _WRITTEN),
        ("blocks", "one before the first", "n - 1 - i", "n - i", _INSIDE),
        ("blocks", "not reversed", "n - 1 - i", "i", "y is x, last element first"),
        (
            "blocks",
            "spare threads that read the first element",
            "if (i < n)\n        y[i] = x[n - 1 - i];",
            "float value = x[max(n - 1 - i, 0)];\n    if (i < n) y[i] = value;",
            _SPARE,
        ),
        ("triangle", "one guard for both", "i < M && j < N", "i * N + j < M * N", _TRIANGLE),
        ("triangle", "the other triangle", "j <= i", "i <= j", _TRIANGLE),
        (
            "triangle",
            "times 0 or 1",
            "if (j <= i)\n            y[i * N + j] = x[i * N + j];\n        else\n            y[i * N + j] = 0;",
            "y[i * N + j] = x[i * N + j] * (j <= i);",
            _TRIANGLE,
        ),
        ("triangle", "rows of 8 bits", "int i =", "unsigned char i =", _WRITTEN),
        ("triangle", "0 where it is not yet", "else\n", "else if (x[i * N + j] != 0)\n", _WRITTEN),
        ("triangle", "no zeros", "else\n            y[i * N + j] = 0;", "", _WRITTEN),
        ("broadcast", "row and column exchanged", "a[i] + b[j]", "a[j] + b[i]", _INSIDE),
        (
            "broadcast",
            "spare threads that store the last ones again",
            "if (i < M && j < N)\n",
            "i = min(i, M - 1), j = min(j, N - 1);\n",
            _SPARE,
        ),
        ("broadcast", "blocks of 8 columns", "blockIdx.x * blockDim.x", "blockIdx.x * 8", _WRITTEN),
        ("broadcast", "a barrier for some", "if (i < M", "if (i < M && j < N) __syncthreads();\n    if (i < M", _ENDS),
        ("broadcast", "the stride of a column", "y[i * N + j]", "y[i * M + j]", _INSIDE),
        ("broadcast", "a product", "a[i] + b[j]", "a[i] * b[j]", "y[i, j] is a[i] + b[j]"),
        ("pool", "windows that overlap", "x[4 * i + k]", "x[i + k]", "y[i] is the largest of x[4 i] to x[4 i + 3]"),
        ("pool", "begun with 0", "largest = x[4 * i];", "largest = 0;", "y[i] is the largest of x[4 i] to x[4 i + 3]"),
        (
            "pool",
            "begun with a small number",
            "largest = x[4 * i];\n    for (int k = 1;",
            "largest = -1000;\n    for (int k = 0;",
            "y[i] is the largest of x[4 i] to x[4 i + 3]",
        ),
        (
            "pool",
            "begun with a very small number",
            "largest = x[4 * i];\n    for (int k = 1;",
            "largest = -1e30f;\n    for (int k = 0;",
            "y[i] is the largest of x[4 i] to x[4 i + 3]",
        ),
        (
            "pool",
            "begun with the lowest finite number",
            "largest = x[4 * i];\n    for (int k = 1;",
            "largest = -3.402823466e38f;\n    for (int k = 0;",
            "y[i] is the largest of x[4 i] to x[4 i + 3]",
        ),
        ("pool", "spare threads that store the last again", "if (i >= n) return;", "i = min(i, n - 1);", _SPARE),
        ("pool", "no guard", "if (i >= n) return;", "", _INSIDE),
        ("convolution", "a window that stands still", "x[i + k]", "x[i]", _WINDOW),
        (
            "convolution",
            "weights loaded by threads of which some have left",
            "    float sum = 0;\n",
            """    __shared__ float ws[1024];
    if (K <= 1024) {
        for (int k = threadIdx.x; k < K; k += blockDim.x) ws[k] = w[k];
        w = ws;
        __syncthreads();
    }
    float sum = 0;
""",
            _WINDOW,
        ),
        *(
            (
                "convolution",
                f"at most {many} weights, in an array of the thread's own",
                "    float sum = 0;\n",
                f"    float sum = 0, ws[{many}];\n    for (int k = 0; k < K; k++) ws[k] = w[k];\n    w = ws;\n",
                _INSIDE,
            )
            for many in (64, 1024)
        ),
        ("convolution", "no product where w is 0", "sum +=", "if (w[k] != 0) sum +=", _WINDOW),
        ("convolution", "no product where x is 0", "sum +=", "if (x[i + k] != 0) sum +=", _WINDOW),
        ("convolution", "a window of 32 at most", "k < K", "k < min(K, 32)", _WINDOW),
        ("convolution", "one weight too many", "k < K", "k <= K", _INSIDE),
        ("shared", "no barrier", _BARRIER, "", _RACE),
        ("shared", "from global memory", "tile[t - 1]", "x[i - 1]", _ONCE),
        ("shared", "the element after it", "tile[t - 1]", "tile[t + 1]", _INSIDE),
        ("shared", "times 0 or 1", "t > 0 ? tile[t] - tile[t - 1] : tile[t]", _TIMES, _DIFFERENCE),
        ("shared", "nothing subtracted", "- tile[t - 1]", "", _DIFFERENCE),
        ("dot", "no barrier in the loop", "        __syncthreads();\n        // END", "// END", _RACE),
        (
            "dot",
            "a shuffle for some",
            "part[t] += part[t + half];",
            "part[t] += part[t + half] * __shfl_sync(~0u, 1, 0);",
            _MEETS,
        ),
        ("dot", "a barrier for some", "part[t] += part[t + half];", "{ part[t] += part[t + half]; return; }", _WRITTEN),
        (
            "dot",
            "one addition after another",
            "if (t < half)\n            part[t] += part[t + half];",
            "for (int i = 1; t == 0 && half == 64 && i < 128; i++) part[0] += part[i];",
            "the sum takes seven rounds",
        ),
        ("dot", "the neighbour", "part[t + half]", "part[t + 1]", _RACE),
        ("dot", "one half", "part[t] += part[t + half];", "part[t] += 0;", _DOT),
        ("dot", "no product where b is 0", "t < n ?", "t < n && b[t] != 0 ?", _DOT),
        ("dot", "times 0 or 1", "t < n ? a[t] * b[t] : 0", "a[min(t, n - 1)] * b[min(t, n - 1)] * (t < n)", _DOT),
        (
            "dot",
            "one thread loads",
            "part[t] = t < n ? a[t] * b[t] : 0;",
            "part[t] = 0;\n    if (t == 0) for (int i = 0; i < n; i++) part[i] = a[i] * b[i];",
            _RACE,
        ),
        (
            "dot",
            "one thread works",
            "part[t] = t < n ? a[t] * b[t] : 0;",
            "if (t == 0) for (int i = 0; i < 128; i++) part[i] = i < n ? a[i] * b[i] : 0;",
            "all threads load",
        ),
        ("axis_sum", "64 turns at most", "j < N;", "j < min(N, 4096);", "y[i] is the sum of row i"),
        ("axis_sum", "a step of one", "j += blockDim.x", "j++", "y[i] is the sum of row i"),
        ("axis_sum", "only the first of a thread", "j += blockDim.x", "j += N", "y[i] is the sum of row i"),
        ("axis_sum", "stored by threads with an element", "part[t] = sum;", "if (t < N) part[t] = sum;", _KNOWN),
        (
            "axis_sum",
            "times 0 or 1",
            "j < N; j += blockDim.x)\n        sum += x[i * N + j];",
            "j - t < N; j += blockDim.x)\n        sum += x[i * N + min(j, N - 1)] * (j < N);",
            "y[i] is the sum of row i",
        ),
        ("axis_sum", "up to a zero", "j < N;", "j < N && x[i * N + j] != 0;", "y[i] is the sum of row i"),
        (
            "axis_sum",
            "one addition after another",
            "part[t] = sum;",
            "part[t] = sum;\n    __syncthreads();\n"
            "    for (int k = 1; t == 0 && k < 64; k++) part[0] += part[k], part[k] = 0;",
            "the sum takes six rounds",
        ),
        ("axis_sum", "nothing stored", "part[t] = sum;", "", _KNOWN),
        (
            "axis_sum",
            "a stretch each",
            "for (int j = t; j < N; j += blockDim.x)",
            "int each = (N + 63) / 64;\n    for (int j = t * each; j < N && j < (t + 1) * each; j++)",
            _READS,
        ),
        ("prefix_sum", "one barrier a turn", f"{_LEFT}\n        __syncthreads();", _LEFT, _RACE),
        ("prefix_sum", "one too far to the left", "sum[t - step]", "sum[t - step - 1]", _INSIDE),
        ("prefix_sum", "from memory", "sum[t - step]", "x[t - step]", _INSIDE),
        ("prefix_sum", "exclusive", "y[t] = sum[t]", "y[t] = sum[t] - x[t]", "y[i] is the sum of x[0] to x[i]"),
        (
            "prefix_sum",
            "times 0 or 1, of the first",
            _LEFT,
            "float left = (t >= step) * sum[max(t - step, 0)];",
            "y[i] is the sum of x[0] to x[i]",
        ),
        (
            "prefix_sum",
            "times 0 or 1, around the end",
            _LEFT,
            "float left = (t >= step) * sum[t - step & 127];",
            "y[i] is the sum of x[0] to x[i]",
        ),
        (
            "prefix_sum",
            "one addition after another",
            f"{_LEFT}\n        __syncthreads();\n        sum[t] += left;",
            "for (int i = 1; t == 0 && step == 1 && i < 128; i++) sum[i] += sum[i - 1];",
            "the sums take seven rounds",
        ),
        (
            "prefix_sum",
            "every thread adds all",
            "y[t] = sum[t];",
            "{\n        float all = 0;\n        for (int i = 0; i <= t; i++) all += x[i];\n        y[t] = all;\n    }",
            _ONCE,
        ),
        (
            "softmax_row",
            "a largest of at least 0",
            "float largest = row[0]",
            "float largest = fmaxf(row[0], 0)",
            _SOFTMAX,
        ),
        (
            "softmax_row",
            "a largest by differences",
            "largest = fmaxf(largest, row[k]);",
            "largest += fmaxf(row[k] - largest, 0);",
            _SOFTMAX,
        ),
        ("softmax_row", "a largest without the second", "int k = 1", "int k = 2", _SOFTMAX),
        (
            "softmax_row",
            "no exponent below -20",
            "= expf(row[j] - largest) / sum",
            "= expf(fmaxf(row[j] - largest, -20)) / sum",
            "0 where x is −∞",
        ),
        ("softmax_row", "equal ones once", "sum += expf", "if (k == 0 || row[k] != row[k - 1]) sum += expf", _SOFTMAX),
        (
            "softmax_row",
            "small ones left out",
            "sum += expf",
            "if (row[k] > largest - 10) sum += expf",
            _SOFTMAX,
        ),
        ("softmax_row", "no largest", "fmaxf(largest, row[k])", "0", _SOFTMAX),
        ("softmax_row", "the first in place of the largest", "fmaxf(largest, row[k])", "row[0]", _SOFTMAX),
        ("softmax_row", "a millionth more", "/ sum", "/ (sum + 1e-6f)", _SOFTMAX),
        ("softmax_row", "not divided", "expf(row[j] - largest) / sum", "expf(row[j] - largest)", _SOFTMAX),
        ("softmax_row", "the row from memory again", "expf(row[k] - largest)", "expf(x[i * N + k] - largest)", _ONCE),
        ("transpose", "from the tile's row", "tile[column][row]", "tile[row][column]", _KNOWN),
        ("transpose", "x by columns", "x[i * N + j]", "x[j * M + i]", "y[j, i] is x[i, j]"),
        ("transpose", "blocks not exchanged", "to_row = blockIdx.x", "to_row = blockIdx.y", _RACE),
        (
            "transpose",
            "rows of x that become columns of y",
            f"if (to_row < N && to_column < M)\n        {_STORED}",
            "if (i < M && j < N)\n        y[j * M + i] = tile[row][column];",
            "y is written in the fewest sectors",
        ),
        (
            "transpose",
            "columns of x",
            "if (i < M && j < N)\n        tile[row][column] = x[i * N + j];",
            "int a = blockIdx.y * 16 + column, b = blockIdx.x * 16 + row;\n"
            "    if (a < M && b < N)\n        tile[column][row] = x[a * N + b];",
            _READS,
        ),
        (
            "transpose",
            "edges stored along columns",
            "if (to_row < N",
            """if (blockIdx.x * 16 + 16 > N || blockIdx.y * 16 + 16 > M) {
        if (i < M && j < N) y[j * M + i] = tile[row][column];
    } else if (to_row < N""",
            "y is written in the fewest sectors",
        ),
        (
            "transpose",
            "edges loaded along columns",
            "if (i < M && j < N)\n        tile",
            """if (blockIdx.x * 16 + 16 > N || blockIdx.y * 16 + 16 > M) {
        int a = blockIdx.y * 16 + column, b = blockIdx.x * 16 + row;
        if (a < M && b < N) tile[column][row] = x[a * N + b];
    } else if (i < M && j < N)
        tile""",
            _READS,
        ),
        (
            "tile",
            "no products where a tile of a is 0",
            "__syncthreads();\n        for (int l",
            "if (!__syncthreads_or(tile_a[row][column] != 0)) continue;\n        for (int l",
            _TILE,
        ),
        (
            "tile",
            "no products where a tile of b is 0",
            "__syncthreads();\n        for (int l",
            "if (!__syncthreads_or(tile_b[row][column] != 0)) continue;\n        for (int l",
            _TILE,
        ),
        ("tile", "no product with a 0", "sum +=", "if (tile_a[row][l] != 0) sum +=", _TILE),
        ("tile", "no barrier before the sum", "__syncthreads();\n        for (int l", "for (int l", _RACE),
        (
            "tile",
            "the last of a again",
            "in_a ? a[i * K + k + column] : 0",
            "i < M ? a[i * K + min(k + column, K - 1)] : 0",
            _TILE,
        ),
        ("tile", "steps of 8 bits", "int k = 0", "unsigned char k = 0", _ENDS),
        ("tile", "the tile of b by columns", "tile_b[l][column]", "tile_b[column][l]", _TILE),
        (
            "tile",
            "a from memory",
            "tile_a[row][l] * tile",
            "(i < M && k + l < K ? a[i * K + k + l] : 0) * tile",
            "a is loaded once for each tile of a row",
        ),
        (
            "tile",
            "b from memory",
            "* tile_b[l][column]",
            "* (k + l < K && j < N ? b[(k + l) * N + j] : 0)",
            "b is loaded once for each tile of a column",
        ),
    )
]
