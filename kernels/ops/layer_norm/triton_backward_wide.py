"""Level 4: layer norm in Triton, backward, for rows wider than a program's registers.

One kernel reads a row once for its statistics; another takes the matrix in tiles, in which dx needs nothing but those
statistics, and adds up dweight and dbias down the columns. x and dy are read twice, every other byte moves once.
"""

import torch
import triton
import triton.language as tl

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.machine import multiprocessors
from kernels.ops.layer_norm.native import Gradients
from kernels.triton.column_sums import Partials, store_partials
from kernels.triton.launch import launch


@triton.jit
def layer_norm_backward_statistics_kernel(
    dy_ptr, x_ptr, weight_ptr, statistics_ptr, dy_stride, x_stride, M, N, eps, BLOCK_N: tl.constexpr
):
    """Of a row, read once: mean, 1 / standard deviation, mean of g, mean of g · n.

    Each lane keeps the mean and the squared deviations of the columns that it has seen (Welford 1962), and their products
    with g's deviations; at the end the lanes are joined (Chan, Golub and LeVeque 1983).
    """
    row = tl.program_id(0).to(tl.int64)
    dy_ptr += row * dy_stride
    x_ptr += row * x_stride
    lanes = tl.arange(0, BLOCK_N)
    mean_x = tl.zeros((BLOCK_N,), tl.float32)
    mean_g = tl.zeros((BLOCK_N,), tl.float32)
    squares = tl.zeros((BLOCK_N,), tl.float32)
    products = tl.zeros((BLOCK_N,), tl.float32)
    seen = 0.0
    for start in range(0, N, BLOCK_N):
        columns = start + lanes
        inside = columns < N
        x = tl.load(x_ptr + columns, mask=inside, other=0.0).to(tl.float32)
        g = tl.load(dy_ptr + columns, mask=inside, other=0.0).to(tl.float32)
        if weight_ptr is not None:
            g *= tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
        seen += 1.0
        share = 1.0 / seen
        from_x = tl.where(inside, x - mean_x, 0.0)
        mean_x += from_x * share
        mean_g += tl.where(inside, g - mean_g, 0.0) * share
        from_new = tl.where(inside, x - mean_x, 0.0)
        squares += from_x * from_new
        products += tl.where(inside, g - mean_g, 0.0) * from_x
    counts = (N // BLOCK_N + (lanes < N % BLOCK_N).to(tl.int32)).to(tl.float32)
    mean = tl.div_rn(tl.sum(counts * mean_x), tl.cast(N, tl.float32))
    g = tl.sum(counts * mean_g) / N
    apart = tl.where(counts > 0, mean_x - mean, 0.0)
    variance = tl.sum(squares + counts * apart * apart) / N
    rstd = 1.0 / tl.sqrt(variance + eps)
    gn = tl.sum(products + counts * apart * (mean_g - g)) / N * rstd
    tl.store(statistics_ptr + row, mean)
    tl.store(statistics_ptr + M + row, rstd)
    tl.store(statistics_ptr + 2 * M + row, g)
    tl.store(statistics_ptr + 3 * M + row, gn)


@triton.jit
def layer_norm_backward_columns_kernel(
    dy_ptr,
    x_ptr,
    weight_ptr,
    statistics_ptr,
    dx_ptr,
    dweight_ptr,
    dbias_ptr,
    dy_stride,
    x_stride,
    M,
    N,
    ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    program = tl.program_id(1)
    columns = (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    weight = 1.0
    if weight_ptr is not None:
        weight = tl.load(weight_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    dweight = tl.zeros((ROWS, BLOCK_N), tl.float32)
    dbias = tl.zeros((ROWS, BLOCK_N), tl.float32)
    for start in range(program * ROWS, M, tl.num_programs(1) * ROWS):
        rows = (start + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        inside = (rows < M) & (columns < N)
        dy = tl.load(dy_ptr + rows * dy_stride + columns, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + rows * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(statistics_ptr + rows, mask=rows < M, other=0.0)
        rstd = tl.load(statistics_ptr + M + rows, mask=rows < M, other=0.0)
        mean_g = tl.load(statistics_ptr + 2 * M + rows, mask=rows < M, other=0.0)
        mean_gn = tl.load(statistics_ptr + 3 * M + rows, mask=rows < M, other=0.0)
        normalised = (x - mean) * rstd
        g = dy * weight
        tl.store(dx_ptr + rows * N + columns, rstd * (g - mean_g - normalised * mean_gn), mask=inside)
        if dweight_ptr is not None:
            dweight += dy * normalised
        if dbias_ptr is not None:
            dbias += dy
    store_partials(dweight_ptr, dbias_ptr, dweight, dbias, program, columns, N)


def wide(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> Gradients:
    """dx, dweight and dbias of a matrix with at least one element. Deterministic on one kind of GPU."""
    dx = empty_contiguous(x)
    dy, x, weight = as_rows(dy), as_rows(x), as_columns(weight)
    M, N = x.shape
    strides = dy.stride(0), x.stride(0)
    statistics = x.new_empty((4, M), dtype=torch.float32)
    launch(
        layer_norm_backward_statistics_kernel,
        (M,),
        dy,
        x,
        weight,
        statistics,
        *strides,
        M,
        N,
        eps,
        BLOCK_N=1_024,
        num_warps=4,
    )
    # Tiles of 4 rows, 32 values a thread: registers for 5 programs a multiprocessor.
    ROWS, BLOCK_N, warps, per_multiprocessor = 4, 512, 2, 5
    across = triton.cdiv(N, BLOCK_N)
    programs = min(triton.cdiv(M, ROWS), max(per_multiprocessor * multiprocessors(x.device) // across, 1))
    sums = Partials(programs, weight, bias)
    arguments = (dy, x, weight, statistics, dx, sums.dweight, sums.dbias, *strides, M, N)
    launch(
        layer_norm_backward_columns_kernel, (across, programs), *arguments, ROWS=ROWS, BLOCK_N=BLOCK_N, num_warps=warps
    )
    return dx, *sums.add_up()
