"""Mistakes in the backward of layer norm, and other ways to write it."""

from mutants import Mutant

_INSIDE = "it stays inside its arrays"
_ENDS = "it runs to its end"
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

_ROWS = "tl.range(program, M, tl.num_programs(0))"
_CENTRED = "centred = tl.where(inside, x - tl.sum(x) / N, 0.0)"
_VARIANCE = "variance = tl.sum(centred * centred) / N"
_RSTD = "rstd = 1 / tl.sqrt(variance + eps)"
_FORMULA = "dx = rstd * (g - mean_g - n * mean_gn)"
_STORE_DX = "tl.store(dx_ptr + places, dx, inside)"
_STORE_DWEIGHT = "tl.store(dweight_ptr + program * N + columns, dweight, inside)"
_STORE_DBIAS = "tl.store(dbias_ptr + program * N + columns, dbias, inside)"
_STORES = f"{_STORE_DWEIGHT}\n    {_STORE_DBIAS}"
_LAUNCHER = """

def layer_norm_backward(dy, x, weight, eps):
    M, N = x.shape
    programs = 8
    dx = torch.empty_like(x)
    dweight = torch.empty(programs, N, device=x.device)
    dbias = torch.empty(programs, N, device=x.device)
    layer_norm_backward_kernel[(programs,)](
        dy, x, weight, dx, dweight, dbias, M, N, eps,
        BLOCK_N=triton.next_power_of_2(N),
    )
    return dx, dweight.sum(0).to(x.dtype), dbias.sum(0).to(x.dtype)
"""
_REST = f"{_STORES}\n    # END SOLUTION\n{_LAUNCHER}".rstrip()

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
        ("dbias by PyTorch", "dbias.sum", "dy.float().sum", _BESIDE),
    )
]

_HEAD = """@triton.jit
def layer_norm_backward_kernel(
    dy_ptr, x_ptr, weight_ptr, dx_ptr, dweight_ptr, dbias_ptr, M, N, eps, BLOCK_N: tl.constexpr
):
"""
_BEGIN = (
    _HEAD
    + """    program = tl.program_id(0)
    columns = tl.arange(0, BLOCK_N)
    inside = columns < N
    weight = tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    dweight = tl.zeros((BLOCK_N,), tl.float32)
    dbias = tl.zeros((BLOCK_N,), tl.float32)
"""
)

ACCEPTED = {
    "layer_norm_backward": {
        "a stretch of rows for each program": _BEGIN
        + """    each = tl.cdiv(M, tl.num_programs(0))
    first = program * each
    for row in range(first, tl.minimum(first + each, M)):
        x = tl.load(x_ptr + row * N + columns, mask=inside, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * N + columns, mask=inside, other=0.0).to(tl.float32)
        mean = tl.sum(x, 0) / N
        centred = tl.where(inside, x - mean, 0.0)
        variance = tl.sum(centred * centred, 0) / N
        rstd = tl.rsqrt(variance + eps)
        n = centred * rstd
        g = dy * weight
        c1 = tl.sum(n * g, 0) / N
        c2 = tl.sum(g, 0) / N
        tl.store(dx_ptr + row * N + columns, (g - (n * c1 + c2)) * rstd, mask=inside)
        dweight += dy * n
        dbias += dy
    tl.store(dweight_ptr + program * N + columns, dweight, mask=inside)
    tl.store(dbias_ptr + program * N + columns, dbias, mask=inside)
"""
        + _LAUNCHER,
        "tiles of four rows": _HEAD
        + """    program = tl.program_id(0)
    columns = tl.arange(0, BLOCK_N)[None, :]
    weight = tl.load(weight_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    dweight = tl.zeros((4, BLOCK_N), tl.float32)
    dbias = tl.zeros((4, BLOCK_N), tl.float32)
    for start in tl.range(program * 4, M, tl.num_programs(0) * 4, num_stages=3):
        rows = start + tl.arange(0, 4)[:, None]
        inside = (rows < M) & (columns < N)
        dy = tl.load(dy_ptr + rows * N + columns, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + rows * N + columns, mask=inside, other=0.0).to(tl.float32)
        centred = tl.where(inside, x - (tl.sum(x, 1) / N)[:, None], 0.0)
        rstd = (1 / tl.sqrt(tl.sum(centred * centred, 1) / N + eps))[:, None]
        n = centred * rstd
        g = dy * weight
        dx = rstd * (g - tl.sum(g, 1, keep_dims=True) / N - n * tl.sum(g * n, 1, keep_dims=True) / N)
        tl.store(dx_ptr + rows * N + columns, dx, mask=inside)
        dweight += dy * n
        dbias += dy
    tl.store(dweight_ptr + program * N + columns, tl.sum(dweight, 0)[None, :], mask=columns < N)
    tl.store(dbias_ptr + program * N + columns, tl.sum(dbias, 0)[None, :], mask=columns < N)
"""
        + _LAUNCHER,
        "a second kernel for the sums, and two means in one": _BEGIN
        + """    row = program
    while row < M:
        x = tl.load(x_ptr + row * N + columns, mask=inside, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * N + columns, mask=inside, other=0.0).to(tl.float32)
        c = tl.where(inside, x - tl.sum(x) / N, 0.0)
        variance = tl.sum(c * c) / N + eps
        rstd = 1 / tl.sqrt(variance)
        g = dy * weight
        dx = (g - tl.sum(g) / N) * rstd - c * (tl.sum(g * c) / (N * variance) * rstd)
        tl.store(dx_ptr + row * N + columns, dx, mask=inside)
        dweight += dy * c * rstd
        dbias += dy
        row += tl.num_programs(0)
    tl.store(dweight_ptr + program * N + columns, dweight, mask=inside)
    tl.store(dbias_ptr + program * N + columns, dbias, mask=inside)


@triton.jit
def add_up(dweight_ptr, dbias_ptr, out_ptr, programs, N, BLOCK: tl.constexpr):
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    dweight = tl.zeros((BLOCK,), tl.float32)
    dbias = tl.zeros((BLOCK,), tl.float32)
    for p in range(programs):
        dweight += tl.load(dweight_ptr + p * N + columns, mask=columns < N, other=0.0)
        dbias += tl.load(dbias_ptr + p * N + columns, mask=columns < N, other=0.0)
    tl.store(out_ptr + columns, dweight, mask=columns < N)
    tl.store(out_ptr + N + columns, dbias, mask=columns < N)


def layer_norm_backward(dy, x, weight, eps):
    M, N = x.shape
    programs = min(M, 6)
    dx = torch.empty_like(x)
    dweight = torch.empty(programs, N, device=x.device)
    dbias = torch.empty(programs, N, device=x.device)
    layer_norm_backward_kernel[(programs,)](
        dy, x, weight, dx, dweight, dbias, M, N, eps, BLOCK_N=triton.next_power_of_2(N)
    )
    out = torch.empty(2, N, dtype=x.dtype, device=x.device)
    add_up[(triton.cdiv(N, 64),)](dweight, dbias, out, programs, N, BLOCK=64)
    return dx, out[0], out[1]
""",
        "wide loads by a promise, rows from the last": _HEAD
        + """    program = tl.program_id(0)
    columns = tl.max_contiguous(tl.multiple_of(tl.arange(0, BLOCK_N), 8), 8)
    inside = columns < N
    weight = tl.load(weight_ptr + columns, inside, 0.0).to(tl.float32)
    dweight = tl.full((BLOCK_N,), 0.0, tl.float32)
    dbias = tl.full((BLOCK_N,), 0.0, tl.float32)
    for turn in range(tl.cdiv(M, tl.num_programs(0))):
        row = M - 1 - program - turn * tl.num_programs(0)
        here = inside & (row >= 0)
        x = tl.load(x_ptr + row * N + columns, here, 0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * N + columns, here, 0.0).to(tl.float32)
        centred = tl.where(inside, x - tl.sum(x) / N, 0.0)
        rstd = 1 / tl.sqrt(tl.sum(centred * centred) / N + eps)
        n = centred * rstd
        g = dy * weight
        tl.store(dx_ptr + row * N + columns, rstd * (g - tl.sum(g) / N - n * (tl.sum(g * n) / N)), here)
        dweight = tl.fma(dy, n, dweight)
        dbias += dy
    tl.store(dweight_ptr + program * N + columns, dweight, inside)
    tl.store(dbias_ptr + program * N + columns, dbias, inside)
"""
        + _LAUNCHER,
    }
}
