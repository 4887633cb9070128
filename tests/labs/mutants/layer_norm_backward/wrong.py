"""Mistakes in the backward of layer norm."""

from mutants import Mutant
from mutants.layer_norm_backward.right import ACCEPTED, LAUNCHER

_INSIDE = "it stays inside its arrays"
_ENDS = "it runs to its end"
_COMPILES = "it compiles for a GPU"
_DEVICE = "its tensors are on the device of its arguments"
_EVERY_ROW = "every row is handled, however many there are"
_DBIAS = "dbias is the sum of dy over all rows"
_DWEIGHT = "dweight is the sum of dy · n over all rows"
_DX = "dx is rstd · (g - mean of g - n · mean of g · n)"
_LANES = "lanes beyond the row stay out of its sums"
_WIDTHS = "narrow rows and wide ones"
_FEW = "any number of rows, even fewer than programs"
_MEAN = "stable where a row's mean is large"
_HALF = "also in float16 and bfloat16"
_ROUNDED = "dweight: rounded once"
_RACE = "no program depends on another"
_ATOMICS = "no atomic additions: the same bits every time"
_READ = "dy and x are read once"
_STORED = "dx is written once"
_PARTIALS = "each program writes its partial sums once"
_BESIDE = "PyTorch adds up nothing but the partial sums"
_SHARED = "the programs share the rows"
_GIVEN = "its inputs do not change"
_AGAIN = "also for other values in the same shape"
_FLOAT32 = "the partial sums are float32 until they are added up"
_DETOUR = "no copies of dy and x"
_VALUES = (_DBIAS, _DWEIGHT, _FEW, _MEAN, _LANES, _WIDTHS, _AGAIN, _HALF)

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
_ZEROS = LAUNCHER.replace("torch.empty(programs, N", "torch.zeros(1, N").rstrip()
_ADDED = "\n    ".join(
    f"tl.store(d{one}_ptr + columns, d{one} + tl.load(d{one}_ptr + columns, inside, 0.0), inside)"
    for one in ("weight", "bias")
)
_LAST = f"""{_STORES}
    if program == tl.num_programs(0) - 1:
        for other in range(tl.num_programs(0) - 1):
            dweight += tl.load(dweight_ptr + other * N + columns, inside, 0.0)
            dbias += tl.load(dbias_ptr + other * N + columns, inside, 0.0)
        tl.store(dweight_ptr + columns, dweight, inside)
        tl.store(dbias_ptr + columns, dbias, inside)"""
_COPIES = """


@triton.jit
def copy_kernel(dy_ptr, x_ptr, g_ptr, h_ptr, N, BLOCK_N: tl.constexpr):
    columns = tl.arange(0, BLOCK_N)
    places, inside = tl.program_id(0) * N + columns, columns < N
    tl.store(g_ptr + places, tl.load(dy_ptr + places, inside, 0.0), inside)
    tl.store(h_ptr + places, tl.load(x_ptr + places, inside, 0.0), inside)


def copied(dy, x):
    M, N = x.shape
    copies = torch.empty_like(dy, dtype=torch.float32), torch.empty_like(x, dtype=torch.float32)
    copy_kernel[(M,)](dy, x, *copies, N, BLOCK_N=triton.next_power_of_2(N))
    return copies


""" + ACCEPTED["layer_norm_backward"]["a stretch of rows for each of 16 programs"].replace(
    "        dy, x, w", "        *copied(dy, x), w"
).replace("dy_ptr", "g_ptr").replace(" x_ptr", " h_ptr").replace("(x_ptr", "(h_ptr")
_REST = f"{_STORES}\n    # END SOLUTION\n{LAUNCHER}".rstrip()

MUTANTS = [
    # On a GPU a race may show in any value.
    Mutant("layer_norm_backward", mistake, search, replace, broken, on_a_gpu=_VALUES if broken == _RACE else ())
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
        (
            "partial sums on the CPU",
            "dbias = torch.empty(programs, N, device=x.device)",
            "dbias = torch.empty(programs, N)",
            _DEVICE,
        ),
        ("whole turns only", _ROWS, "range(program, M // 8 * 8, 8)", _EVERY_ROW),
        ("all programs leave their sums in the first row", "dbias_ptr + program * N", "dbias_ptr", _DBIAS),
        ("dbias of the last row only", "dbias += dy", "dbias = dy", _DBIAS),
        ("dbias of g", "dbias += dy", "dbias += g", _DBIAS),
        ("sums in half precision", "dbias += dy", "dbias = (dbias + dy).to(tl.float16).to(tl.float32)", _DBIAS),
        ("the last program's sums lost", "dbias.sum(0)", "dbias[:-1].sum(0)", _DBIAS),
        (
            "the normalised row rounded to 16 bits",
            "dweight += dy * n",
            "dweight += dy * n.to(dx_ptr.dtype.element_ty).to(tl.float32)",
            _ROUNDED,
        ),
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
        ("4,096 columns at most", "triton.next_power_of_2(N)", "min(triton.next_power_of_2(N), 4096)", _WIDTHS),
        ("16,384 columns at most", "triton.next_power_of_2(N)", "min(triton.next_power_of_2(N), 16384)", _WIDTHS),
        ("a mean of g over the block", "mean_g = tl.sum(g) / N", "mean_g = tl.sum(g) / BLOCK_N", _LANES),
        ("8,192 columns, written down", "triton.next_power_of_2(N)", "8192", _WIDTHS),
        ("dx in x", "dx = torch.empty_like(x)", "dx = x", _GIVEN),
        (
            "results kept by shape",
            _RETURN,
            _RETURN.replace("return ", "return KEPT.setdefault((x.shape, x.dtype), (") + "))\n\n\nKEPT = {}",
            _AGAIN,
        ),
        (
            "g in the tensors' own type",
            "g = dy * weight",
            "g = (dy.to(x_ptr.dtype.element_ty) * weight.to(x_ptr.dtype.element_ty)).to(tl.float32)",
            _HALF,
        ),
        ("sums rounded before they are added up", "dweight.sum(0).to(x.dtype)", "dweight.to(x.dtype).sum(0)", _FLOAT32),
        (
            "partial sums in the tensors' own type",
            "dbias = torch.empty(programs, N, device=x.device)",
            "dbias = torch.empty(programs, N, dtype=x.dtype, device=x.device)",
            _FLOAT32,
        ),
        (
            "x read again, where no row is whole sectors",
            "dweight += dy * n",
            "dweight += dy * n\n        if N % 8 != 0:\n"
            "            dweight += 0 * tl.load(x_ptr + places, inside, 0.0).to(tl.float32)",
            _READ,
        ),
        (
            "one program does it all, where no row is whole sectors",
            _ROWS,
            "range(tl.where(N % 8 != 0, 0, program), tl.where((N % 8 != 0) & (program > 0), 0, M), tl.where(N % 8 != 0, 1, 8))",
            _SHARED,
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
        (
            "one row of sums, to which every program adds in its turn",
            _REST,
            f"{_ADDED}\n    # END SOLUTION\n{_ZEROS}",
            _RACE,
        ),
        (
            "the last program adds up, in the same launch",
            _REST,
            f"{_LAST}\n    # END SOLUTION\n{LAUNCHER.replace('.sum(0)', '[0]')}".rstrip(),
            _RACE,
        ),
    )
]
