"""Mistakes in a fused bias and GELU, and other ways to write it."""

from mutants import Mutant

_INSIDE = "it stays inside its arrays"
_ENDS = "it runs to its end"
_COMPILES = "it compiles for a GPU"
_WRITTEN = "every element of y is written"
_RIGHT = "y is gelu(x + bias)"
_ANY_SIZE = "also for sizes that are not multiples of the block"
_HALF = "also in float16 and bfloat16"
_ROUNDED = "y: rounded once"
_LARGE = "stable where |x + bias| is large"
_ONE = "it is one launch"
_READ = "x is read once"
_STORED = "y is written once"
_GIVEN = "its inputs do not change"
_AGAIN = "also for other values in the same shape"
_SHARED = "the programs share the work"
_KEPT = "nothing is kept in memory between"
_LAUNCHED = "a large x is launched, too"
_DEVICE = "its tensors are on the device of its arguments"

_LOADS = """x = tl.load(x_ptr + places, mask=inside).to(tl.float32)
    bias = tl.load(bias_ptr + places % N, mask=inside).to(tl.float32)
    u = x + bias"""
_X = "x = tl.load(x_ptr + places, mask=inside).to(tl.float32)"
_GELU = "y = 0.5 * u * (1 + tl.erf(u * 0.7071067811865476))"
_STORE = "tl.store(y_ptr + places, y, mask=inside)"
_EMPTY = "y = torch.empty_like(x)"
_GRID = """grid = (triton.cdiv(M * N, 1024),)
    bias_gelu_kernel[grid](x, bias, y, M, N, BLOCK=1024)"""
_WHOLE = "bias_gelu_kernel[(1,)](x, bias, y, M, N, BLOCK=triton.next_power_of_2(M * N))"
_BODY = f"""places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < M * N
    {_LOADS}
    {_GELU}
    {_STORE}"""
_LOOP = "for start in range(0, tl.where(tl.program_id(0) == 0, M * N, 0), BLOCK):\n        " + _BODY.replace(
    "tl.program_id(0) * BLOCK", "start"
).replace("\n    ", "\n        ")
_STRIDE = "for start in range(tl.program_id(0) * BLOCK, M * N, tl.num_programs(0) * BLOCK):\n        " + _BODY.replace(
    "tl.program_id(0) * BLOCK", "start"
).replace("\n    ", "\n        ")
_WHOLE_TEXT = f"""{_BODY}
    # END SOLUTION


def bias_gelu(x, bias):
    M, N = x.shape
    y = torch.empty_like(x)
    # BEGIN SOLUTION
    {_GRID}"""
_DETOUR = """    return y


@triton.jit
def detour_kernel(x_ptr, bias_ptr, y_ptr, u_ptr, M, N, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < M * N
    x = tl.load(x_ptr + places, mask=inside).to(tl.float32)
    tl.store(u_ptr + places, x + tl.load(bias_ptr + places % N, mask=inside).to(tl.float32), mask=inside)
    phi = 0.5 * (1 + tl.erf(tl.load(u_ptr + places, mask=inside, other=0) * 0.7071067811865476))
    tl.store(y_ptr + places, tl.load(u_ptr + places, mask=inside, other=0) * phi, mask=inside)


def bias_gelu(x, bias):
    M, N = x.shape
    y, u = torch.empty_like(x), torch.empty(M, N, device=x.device)
    detour_kernel[(triton.cdiv(M * N, 1024),)](x, bias, y, u, M, N, BLOCK=1024)
    return y"""

MUTANTS = [
    # A block of everything may take the GPU's compiler longer than a try has.
    Mutant("bias_gelu", mistake, search, replace, broken, on_a_gpu=(_ENDS,) if replace == _WHOLE else ())
    for mistake, search, replace, broken in (
        ("a store without its mask", _STORE, _STORE.replace(", mask=inside", ""), _INSIDE),
        ("a load without its mask", _X, _X.replace(", mask=inside", ""), _INSIDE),
        ("a mask off by one", "inside = places < M * N", "inside = places <= M * N", _INSIDE),
        ("the bias at the place of x", "bias_ptr + places % N", "bias_ptr + places", _INSIDE),
        ("a mask one too early", "inside = places < M * N", "inside = places < M * N - 1", _WRITTEN),
        ("a grid that rounds down", "triton.cdiv(M * N, 1024)", "M * N // 1024", _ENDS),
        (
            "a grid that rounds down, of one program at least",
            "triton.cdiv(M * N, 1024)",
            "max(M * N // 1024, 1)",
            _WRITTEN,
        ),
        ("every program does the first block", "tl.program_id(0) * BLOCK + ", "", _WRITTEN),
        (
            "constants in a dict",
            _GELU,
            f'of = {{"erf": 0.7071067811865476}}\n    {_GELU}'.replace("u * 0.7071067811865476", 'u * of["erf"]'),
            _COMPILES,
        ),
        ("the bias of a row", "bias_ptr + places % N", "bias_ptr + places // N", _RIGHT),
        ("no bias", "u = x + bias", "u = x", _RIGHT),
        ("the bias after the GELU", f"u = x + bias\n    {_GELU}", f"u = x\n    {_GELU} + bias", _RIGHT),
        ("erf of u, without the root of 2", "u * 0.7071067811865476", "u", _RIGHT),
        ("a constant of three digits", "0.7071067811865476", "0.707", _RIGHT),
        ("the approximation by tanh", _GELU, "y = u * tl.sigmoid(1.5957691 * (u + 0.044715 * u * u * u))", _RIGHT),
        ("rounded to float16 between", "u = x + bias", "u = (x + bias).to(tl.float16).to(tl.float32)", _RIGHT),
        ("a number of columns that is written down", "places % N", "places % 256 % N", _ANY_SIZE),
        ("the block's width for the row's", "places % N", "places % BLOCK % N", _ANY_SIZE),
        ("a shift for the remainder", "places % N", "(places & (N - 1))", _ANY_SIZE),
        ("nothing converted to float32", _LOADS, _LOADS.replace(".to(tl.float32)", ""), _ENDS),
        (
            "Φ rounded to 16 bits before the product",
            _GELU,
            "phi = 0.5 * (1 + tl.erf(u * 0.7071067811865476))\n    y = u * phi.to(y_ptr.dtype.element_ty).to(tl.float32)",
            _ROUNDED,
        ),
        ("an output in float32", _EMPTY, "y = torch.empty(M, N, device=x.device)", _HALF),
        (
            "the sum taken in the tensor's own type",
            _LOADS,
            _LOADS.replace(".to(tl.float32)", "").replace("x + bias", "(x + bias).to(tl.float32)"),
            _LARGE,
        ),
        ("zeros where empty would do", _EMPTY, "y = torch.zeros_like(x)", _ONE),
        (
            "the GELU by PyTorch",
            "    return y",
            "    return torch.nn.functional.gelu(x.float() + bias.float()).to(x.dtype)",
            _ONE,
        ),
        ("x loaded again for the factor", _GELU, _GELU.replace("0.5 * u", f"0.5 * ({_X[4:]} + bias)"), _READ),
        (
            "lanes eight elements apart",
            "places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
            "i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
            "    places = tl.where((M * N % 8 == 0) & (i < M * N), i * 8 % (M * N) + i * 8 // (M * N), i)",
            _READ,
        ),
        ("the result in x", _EMPTY, "y = x", _GIVEN),
        (
            "results kept by shape",
            "    return y",
            "    return KEPT.setdefault((x.shape, x.dtype), y)\n\n\nKEPT = {}",
            _AGAIN,
        ),
        (
            "one output for all calls of a shape",
            f"def bias_gelu(x, bias):\n    M, N = x.shape\n    {_EMPTY}",
            "OUTPUTS = {}\n\n\ndef bias_gelu(x, bias):\n    M, N = x.shape\n"
            "    y = OUTPUTS.setdefault((x.shape, x.dtype), torch.empty_like(x))",
            _ENDS,
        ),
        ("a grid of one program, and a block of everything", _GRID, _WHOLE, _SHARED),
        (
            "a block as long as the row",
            _WHOLE_TEXT,
            _WHOLE_TEXT.replace(
                "tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)", "tl.program_id(0) * N + tl.arange(0, BLOCK)"
            )
            .replace("places < M * N", "tl.arange(0, BLOCK) < N")
            .replace("(triton.cdiv(M * N, 1024),)", "(M,)")
            .replace("BLOCK=1024", "BLOCK=triton.next_power_of_2(N)"),
            _SHARED,
        ),
        ("the first program does it all, in a loop", _BODY, _LOOP, _SHARED),
        (
            "x loaded again for the factor, where no sector is whole",
            _GELU,
            f"x = tl.load(x_ptr + places, mask=inside & (N % 8 > 0), other=0).to(tl.float32) + (N % 8 == 0) * x\n    {_GELU}",
            _READ,
        ),
        (
            "lanes eight elements apart, where no row is whole sectors",
            "places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
            "i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
            "    n = M * N // 8 * 8\n"
            "    places = tl.where((N % 8 != 0) & (i < n), i * 8 % n + i * 8 // n, i)",
            _READ,
        ),
        (
            "65,535 programs at most",
            "(triton.cdiv(M * N, 1024),)",
            "(min(triton.cdiv(M * N, 1024), 65535),)",
            _LAUNCHED,
        ),
        (
            "rows on the second axis",
            _WHOLE_TEXT,
            _WHOLE_TEXT.replace("places = tl.program_id(0) * BLOCK", "columns = tl.program_id(0) * BLOCK")
            .replace("inside = places < M * N", "inside = columns < N\n    places = tl.program_id(1) * N + columns")
            .replace("(triton.cdiv(M * N, 1024),)", "(triton.cdiv(N, 1024), M)"),
            _LAUNCHED,
        ),
        (
            "a block as long as a long row",
            _WHOLE_TEXT,
            _WHOLE_TEXT.replace(_BODY, _STRIDE)
            .replace(
                "(triton.cdiv(M * N, 1024),)\n",
                "(triton.cdiv(M * N, 1024),)\n    BLOCK = triton.next_power_of_2(N) if N > 1200 else 1024\n",
            )
            .replace("BLOCK=1024", "BLOCK=BLOCK"),
            _LAUNCHED,
        ),
        ("no grid", "bias_gelu_kernel[grid](", "bias_gelu_kernel(", _ENDS),
        ("a pointer in brackets", _STORE, "y_ptr[places] = y", _ENDS),
        ("three warps", "BLOCK=1024)", "BLOCK=1024, num_warps=3)", _COMPILES),
        ("more warps than a block has", "BLOCK=1024)", "BLOCK=1024, num_warps=64)", _COMPILES),
        ("an output on the CPU", _EMPTY, "y = torch.empty(M, N, dtype=x.dtype)", _DEVICE),
        (
            "a table on the CPU",
            "bias_gelu_kernel[grid](x, bias, y",
            "bias_gelu_kernel[grid](x, torch.zeros(bias.shape, dtype=x.dtype).copy_(bias), y",
            _DEVICE,
        ),
        (
            "eight programs, whatever the size",
            _WHOLE_TEXT,
            _WHOLE_TEXT.replace(_BODY, _STRIDE).replace("(triton.cdiv(M * N, 1024),)", "(8,)"),
            _SHARED,
        ),
        (
            "blocks of 64 for 256 threads",
            _GRID,
            _GRID.replace("BLOCK=1024", "BLOCK=64, num_warps=8").replace("1024", "64"),
            _SHARED,
        ),
        ("a grid that is a number", "[grid]", "[triton.cdiv(M * N, 1024)]", _ENDS),
        (
            "results kept by tensor",
            "    return y",
            "    return KEPT.setdefault(id(x), y)\n\n\nKEPT = {}",
            _AGAIN,
        ),
        ("the sum kept in memory of its own", "    return y", _DETOUR, _KEPT),
        ("the sum stored first", _GELU, f"{_STORE.replace('y,', 'u,')}\n    {_GELU}", _STORED),
    )
]

_KERNEL = """@triton.jit
def bias_gelu_kernel(x_ptr, bias_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
"""
_LAUNCHER = """

def bias_gelu(x, bias):
    M, N = x.shape
    y = torch.empty_like(x)
"""

ACCEPTED = {
    "bias_gelu": {
        "a program a row": _KERNEL
        + """    row = tl.program_id(0).to(tl.int64)
    for start in range(0, N, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < N
        u = tl.load(x_ptr + row * N + columns, mask=inside, other=0.0).to(tl.float32)
        u += tl.load(bias_ptr + columns, mask=inside, other=0.0)
        phi = 0.5 + 0.5 * tl.math.erf(u / 1.4142135623730951)
        tl.store(y_ptr + row * N + columns, (u * phi).to(y_ptr.dtype.element_ty), mask=inside)
"""
        + _LAUNCHER
        + "    bias_gelu_kernel[(M,)](x, bias, y, M, N, BLOCK=128, num_warps=2)\n    return y\n",
        "tiles of rows and columns, the bias loaded once a tile": """
@triton.jit
def bias_gelu_kernel(x_ptr, bias_ptr, y_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    bias = tl.load(bias_ptr + columns, mask=columns < N, other=0).to(tl.float32)
    inside = (rows < M) & (columns < N)
    u = bias + tl.load(x_ptr + rows * N + columns, mask=inside, other=0).to(tl.float32)
    half = u / 2
    tl.store(y_ptr + rows * N + columns, half + half * tl.erf(u * 0.70710678), mask=inside)
"""
        + _LAUNCHER
        + """    grid = lambda meta: (triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"]))
    bias_gelu_kernel[grid](x, bias, y, M, N, BLOCK_M=4, BLOCK_N=64)
    return y
""",
        "vector loads, by a promise, and a few programs that stay": _KERNEL
        + """    for start in tl.range(tl.program_id(0) * BLOCK, M * N, tl.num_programs(0) * BLOCK):
        places = tl.max_contiguous(tl.multiple_of(start + tl.arange(0, BLOCK), 16), 16)
        inside = places < M * N
        u = tl.load(x_ptr + places, inside).to(tl.float32) + tl.load(bias_ptr + places % N, inside).to(tl.float32)
        tl.store(y_ptr + places, tl.fma(0.5 * u, tl.erf(u * 0.7071067811865475), 0.5 * u), inside)
"""
        + _LAUNCHER
        + "    bias_gelu_kernel[(min(triton.cdiv(M * N, 1024), 2048),)](x, bias, y, M, N, BLOCK=256)\n    return y\n",
        "blocks of a size that hardly fits": _KERNEL
        + """    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    u = tl.load(x_ptr + places, places < M * N).to(tl.float32)
    u += tl.load(bias_ptr + places % N, places < M * N).to(tl.float32)
    tl.store(y_ptr + places, u * (0.5 + 0.5 * tl.erf(u * 0.7071067811865476)), places < M * N)
"""
        + _LAUNCHER
        + "    bias_gelu_kernel[(triton.cdiv(M * N, 65536),)](x, bias, y, M, N, BLOCK=65536)\n    return y\n",
        "parameters of other names": """
@triton.jit
def fused(inputs, row, outputs, size, width, LANES: tl.constexpr):
    lanes = tl.program_id(0) * LANES + tl.arange(0, LANES)
    u = tl.load(inputs + lanes, mask=lanes < size, other=0).to(tl.float32)
    u += tl.load(row + lanes % width).to(tl.float32)
    tl.store(outputs + lanes, 0.5 * u * (1 + tl.erf(u * 0.7071067811865476)), mask=lanes < size)


def bias_gelu(x, bias):
    flat, y = x.view(-1), torch.empty_like(x)
    fused[(triton.cdiv(x.numel(), 512),)](flat, bias, y.view(-1), x.numel(), bias.numel(), LANES=512)
    return y
""",
        "a helper, a count and a column": """
@triton.jit
def gelu(u):
    return u * (1 + tl.erf(u * 0.7071067811865476)) * 0.5


@triton.jit
def bias_gelu_kernel(x_ptr, bias_ptr, y_ptr, count, N, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    i = first + tl.arange(0, BLOCK)
    column = i - i // N * N
    x = tl.load(x_ptr + i, mask=i < count, other=0.0)
    bias = tl.load(bias_ptr + column)
    tl.store(y_ptr + i, gelu(x.to(tl.float32) + bias.to(tl.float32)), mask=i < count)


def bias_gelu(x, bias):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    blocks = (x.numel() + 511) // 512
    bias_gelu_kernel[blocks, 1, 1](x, bias, y, x.numel(), x.shape[1], 512)
    return y
""",
    }
}
