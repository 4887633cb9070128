"""Mistakes in the backward of layer norm."""

from mutants import Mutant
from mutants.layer_norm_backward.right import ACCEPTED, LAUNCHER

_INSIDE = "it stays inside its arrays"
_ENDS = "it runs to its end"
_COMPILES = "it compiles for a GPU"
_EVERY_ROW = "every row is done, whatever number the programs share"
_DBIAS = "dbias is the sum of dy over all rows"
_DWEIGHT = "dweight is the sum of dy · n over all rows"
_DX = "dx is rstd · (g - mean of g - n · mean of g · n)"
_LANES = "lanes beyond the row stay out of its sums"
_WIDTHS = "narrow rows and wide ones"
_FEW = "any number of rows, also fewer than programs"
_MEAN = "stable where a row's mean is large"
_HALF = "also in float16 and bfloat16"
_ATOMICS = "no atomic additions: the same bits every time"
_READ = "dy and x are read once"
_STORED = "dx is written once"
_PARTIALS = "each program writes its partial sums once"
_BESIDE = "PyTorch adds up no more than the partial sums"
_SHARED = "the programs share the rows"
_DETOUR = "no copies of dy and x"

_ROWS = "tl.range(program, M, tl.num_programs(0))"
_CENTRED = "centred = tl.where(inside, x - tl.sum(x) / N, 0.0)"
_VARIANCE = "variance = tl.sum(centred * centred) / N"
_RSTD = "rstd = 1 / tl.sqrt(variance + eps)"
_FORMULA = "dx = rstd * (g - mean_g - n * mean_gn)"
_STORE_DX = "tl.store(dx_ptr + places, dx, inside)"
_STORE_DWEIGHT = "tl.store(dweight_ptr + program * N + columns, dweight, inside)"
_STORE_DBIAS = "tl.store(dbias_ptr + program * N + columns, dbias, inside)"
_STORES = f"{_STORE_DWEIGHT}\n    {_STORE_DBIAS}"
_RETURN = "return dx, dweight.sum(0).to(x.dtype), dbias.sum(0).to(x.dtype)"
_COPIES = """


@triton.jit
def copy_kernel(dy_ptr, x_ptr, g_ptr, h_ptr, N, BLOCK_N: tl.constexpr):
    columns = tl.arange(0, BLOCK_N)
    places, inside = tl.program_id(0) * N + columns, columns < N
    tl.store(g_ptr + places, tl.load(dy_ptr + places, inside, 0.0), inside)
    tl.store(h_ptr + places, tl.load(x_ptr + places, inside, 0.0), inside)


def copied(dy, x):
    M, N = x.shape
    copies = torch.empty_like(dy), torch.empty_like(x)
    copy_kernel[(M,)](dy, x, *copies, N, BLOCK_N=triton.next_power_of_2(N))
    return copies


""" + ACCEPTED["layer_norm_backward"]["a stretch of rows for each of 16 programs"].replace(
    "        dy, x, w", "        *copied(dy, x), w"
).replace("dy_ptr", "g_ptr").replace(" x_ptr", " h_ptr").replace("(x_ptr", "(h_ptr")
_REST = f"{_STORES}\n    # END SOLUTION\n{LAUNCHER}".rstrip()

MUTANTS = [
    Mutant("layer_norm_backward", mistake, search, replace, broken)
    for mistake, search, replace, broken in (
        ("dx stored without its mask", _STORE_DX, "tl.store(dx_ptr + places, dx)", _INSIDE),
        (
            "a stretch of rows, rounded up",
            _ROWS,
            "range(program * ((M + 7) // 8), (program + 1) * ((M + 7) // 8))",
            _INSIDE,
        ),
        ("an argument too few", "    BLOCK_N=triton", "    # BLOCK_N=triton", _ENDS),
        ("a sum that begins as a number", "dbias = tl.zeros((BLOCK_N,), tl.float32)", "dbias = 0.0", _COMPILES),
        ("whole turns only", _ROWS, "range(program, M // 8 * 8, 8)", _EVERY_ROW),
        ("all programs leave their sums in the first row", "dbias_ptr + program * N", "dbias_ptr", _DBIAS),
        ("dbias of the last row only", "dbias += dy", "dbias = dy", _DBIAS),
        ("dbias of g", "dbias += dy", "dbias += g", _DBIAS),
        ("sums in half precision", "dbias += dy", "dbias = (dbias + dy).to(tl.float16).to(tl.float32)", _DBIAS),
        ("the last program's sums lost", "dbias.sum(0)", "dbias[:-1].sum(0)", _DBIAS),
        ("dweight of x", "dweight += dy * n", "dweight += dy * x", _DWEIGHT),
        ("no eps", "variance + eps", "variance", _DWEIGHT),
        ("eps outside of the root", _RSTD, "rstd = 1 / (tl.sqrt(variance) + eps)", _DWEIGHT),
        ("dx without rstd", _FORMULA, _FORMULA.replace("rstd * ", ""), _DX),
        ("dx without the mean of g", _FORMULA, _FORMULA.replace(" - mean_g -", " -"), _DX),
        ("dx without the mean of g · n", _FORMULA, "dx = rstd * (g - mean_g)", _DX),
        ("n forgotten in the last term", _FORMULA, _FORMULA.replace("n * mean", "mean"), _DX),
        ("spare lanes in the variance", _CENTRED, "centred = x - tl.sum(x) / N", _LANES),
        ("a mean over the block", "x - tl.sum(x) / N", "x - tl.sum(x) / BLOCK_N", _LANES),
        (
            "spare lanes that hold one",
            "tl.load(x_ptr + places, inside, 0.0)",
            "tl.load(x_ptr + places, inside, 1.0)",
            _LANES,
        ),
        ("1,024 columns at most", "triton.next_power_of_2(N)", "min(triton.next_power_of_2(N), 1024)", _WIDTHS),
        (
            "a program without rows writes no sums",
            _STORES,
            f"if program < M:\n        {_STORE_DWEIGHT}\n        {_STORE_DBIAS}",
            _FEW,
        ),
        (
            "the squares' mean less the mean's square",
            _VARIANCE,
            "variance = tl.sum(x * x) / N - tl.sum(x) / N * (tl.sum(x) / N)",
            _MEAN,
        ),
        ("dx in float32", "dx = torch.empty_like(x)", "dx = torch.empty_like(x, dtype=torch.float32)", _HALF),
        (
            "atomic additions",
            _REST,
            _REST.replace("tl.store", "tl.atomic_add")
            .replace("_ptr + program * N", "_ptr")
            .replace("torch.empty(programs, N,", "torch.zeros(N,")
            .replace(".sum(0)", ""),
            _ATOMICS,
        ),
        (
            "x read again",
            "dweight += dy * n",
            "dweight += dy * rstd * (tl.load(x_ptr + places, inside, 0.0) - tl.sum(x) / N)",
            _READ,
        ),
        ("dx in two steps", _STORE_DX, f"tl.store(dx_ptr + places, g, inside)\n        {_STORE_DX}", _STORED),
        (
            "the sums stored in every turn",
            "        dbias += dy",
            "        dbias += dy\n        tl.store(dbias_ptr + program * N + columns, dbias, inside)",
            _PARTIALS,
        ),
        ("one program does it all", "programs = 8", "programs = 1", _SHARED),
        ("the first program does it all", _ROWS, "range(0, tl.where(program == 0, M, 0))", _SHARED),
        ("64 rows at most", _ROWS, _ROWS.replace("M", "tl.minimum(M, 64)"), _DBIAS),
        ("copies, which may be read as often as one likes", _RETURN, _RETURN + _COPIES, _DETOUR),
        ("dbias by PyTorch", "dbias.sum", "dy.float().sum", _BESIDE),
    )
]
