"""Other ways to write the backward of layer norm."""

LAUNCHER = """

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

IN_ONE_ARRAY = """

def layer_norm_backward(dy, x, weight, eps):
    M, N = x.shape
    dx = torch.empty_like(x)
    sums = torch.empty(2, 8, N, device=x.device)
    layer_norm_backward_kernel[(8,)](
        dy, x, weight, dx, sums[0], sums[1], M, N, eps, BLOCK_N=triton.next_power_of_2(N)
    )
    dweight, dbias = sums.sum(1).to(x.dtype)
    return dx, dweight, dbias
"""

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
        "a stretch of rows for each of 16 programs": _BEGIN
        + """    each = tl.cdiv(M, tl.num_programs(0))
    first = program * each
    for row in range(first, tl.minimum(first + each, M)):
        begin = tl.cast(row, tl.int64) * N
        x = tl.load(x_ptr + begin + columns, mask=inside, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + begin + columns, mask=inside, other=0.0).to(tl.float32)
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
        + LAUNCHER.replace("= 8", "= 16"),
        "sums by a function of its own, and parameters of other names": """@triton.jit
def plus(a, b):
    return a + b


@triton.jit
def mean_of(values, N):
    return tl.reduce(values, 0, plus) / N


@triton.jit
def backward(g_out, inputs, scale, g_in, g_scale, g_shift, M, N, eps, BLOCK_N: tl.constexpr):
    columns = tl.arange(0, BLOCK_N)
    here = columns < N
    w = tl.load(scale + columns, here, 0.0).to(tl.float32)
    sums_w = tl.zeros((BLOCK_N,), tl.float32)
    sums_b = tl.zeros((BLOCK_N,), tl.float32)
    for row in range(tl.program_id(0), M, tl.num_programs(0)):
        dy = tl.load(g_out + row * N + columns, here, 0.0).to(tl.float32)
        x = tl.load(inputs + row * N + columns, here, 0.0).to(tl.float32)
        c = tl.where(here, x - mean_of(x, N), 0.0)
        r = 1 / tl.sqrt(mean_of(c * c, N) + eps)
        n, g = c * r, dy * w
        tl.store(g_in + row * N + columns, r * (g - mean_of(g, N) - n * mean_of(g * n, N)), here)
        sums_w += dy * n
        sums_b += dy
    tl.store(g_scale + tl.program_id(0) * N + columns, sums_w, here)
    tl.store(g_shift + tl.program_id(0) * N + columns, sums_b, here)


def layer_norm_backward(dy, x, weight, eps):
    M, N = x.shape
    dx, sums = torch.empty_like(x), x.new_empty(2, 8, N, dtype=torch.float32)
    block = triton.next_power_of_2(N)
    backward[(8,)](dy, x, weight, dx, sums[0], sums[1], M, N, eps, BLOCK_N=block)
    return dx, sums[0].sum(0).to(x.dtype), sums[1].sum(0).to(x.dtype)
""",
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
        + LAUNCHER,
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
        "wide loads by a promise, rows from the last, both sums in one array": _HEAD
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
        + IN_ONE_ARRAY,
    }
}
