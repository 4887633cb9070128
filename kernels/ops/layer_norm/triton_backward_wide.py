"""Level 4: layer norm in Triton, backward, for rows wider than a program's registers, be they many or few.

One kernel reads a row for its statistics, or, where rows are few, a part of a row, and then another joins the parts. The last
takes the matrix in tiles, in which dx needs nothing but those statistics, and adds up dweight and dbias down the columns. x and
dy are read twice, every other byte moves once.
"""

import torch
import triton
import triton.language as tl

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.machine import multiprocessors
from kernels.ops.layer_norm.native import Gradients
from kernels.row_parts import columns_of_part, few_rows, warps_of_part
from kernels.triton.column_sums import Partials, store_partials
from kernels.triton.launch import launch
from kernels.triton.row_parts import columns_of, joined_mean, part_mean
from kernels.triton.row_tiles import in_steps
from kernels.vectors import pack_size


@triton.jit
def layer_norm_backward_statistics_kernel(
    dy_ptr, x_ptr, weight_ptr, statistics_ptr, dy_stride, x_stride, M, N, eps, STEP: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Of a row, read once: mean, 1 / standard deviation, mean of g, mean of g · n.

    Each lane keeps the mean and the squared deviations of the columns that it has seen (Welford 1962), and their products
    with g's deviations; at the end the lanes are joined (Chan, Golub and LeVeque 1983).
    """
    dy_stride, x_stride, N = in_steps(dy_stride, STEP), in_steps(x_stride, STEP), in_steps(N, STEP)
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
def layer_norm_backward_parts_kernel(
    dy_ptr, x_ptr, weight_ptr, parts_ptr, dy_stride, x_stride, N, STEP: tl.constexpr, BLOCK_N: tl.constexpr
):
    """Of a part of a row: its mean, and its sums of squared deviations from that, of g, and of their products."""
    dy_stride, x_stride, N = in_steps(dy_stride, STEP), in_steps(x_stride, STEP), in_steps(N, STEP)
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns = part * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = columns < N
    x = tl.load(x_ptr + row * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
    g = tl.load(dy_ptr + row * dy_stride + columns, mask=inside, other=0.0).to(tl.float32)
    if weight_ptr is not None:
        g *= tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    mean = part_mean(x, columns_of(part, N, BLOCK_N))
    centred = tl.where(inside, x - mean, 0.0)
    parts_ptr += 4 * (row * tl.num_programs(1) + part)
    tl.store(parts_ptr, mean)
    tl.store(parts_ptr + 1, tl.sum(centred * centred))
    tl.store(parts_ptr + 2, tl.sum(g))
    tl.store(parts_ptr + 3, tl.sum(g * centred))


@triton.jit
def layer_norm_backward_joined_kernel(
    parts_ptr, statistics_ptr, M, N, eps, P, BLOCK_N: tl.constexpr, PARTS: tl.constexpr
):
    """Of a row, from its P parts: mean, 1 / standard deviation, mean of g, mean of g · n."""
    row = tl.program_id(0).to(tl.int64)
    parts = tl.arange(0, PARTS)
    columns = columns_of(parts, N, BLOCK_N)
    parts_ptr += 4 * row * P
    means = tl.load(parts_ptr + 4 * parts, mask=parts < P, other=0.0)
    squares = tl.load(parts_ptr + 4 * parts + 1, mask=parts < P, other=0.0)
    sums = tl.load(parts_ptr + 4 * parts + 2, mask=parts < P, other=0.0)
    products = tl.load(parts_ptr + 4 * parts + 3, mask=parts < P, other=0.0)
    mean = joined_mean(means, tl.load(parts_ptr), columns, N)
    apart = tl.where(parts < P, means - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(squares + columns * apart * apart) / N + eps)
    tl.store(statistics_ptr + row, mean)
    tl.store(statistics_ptr + M + row, rstd)
    tl.store(statistics_ptr + 2 * M + row, tl.sum(sums) / N)
    tl.store(statistics_ptr + 3 * M + row, tl.sum(products + apart * sums) / N * rstd)


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
    STEP: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    dy_stride, x_stride, N = in_steps(dy_stride, STEP), in_steps(x_stride, STEP), in_steps(N, STEP)
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


def statistics_by_parts(dy, x, weight, eps: float, statistics: torch.Tensor, step: int) -> None:
    M, N = x.shape
    columns = columns_of_part(M, N, x.device)
    parts, part = triton.cdiv(N, columns), {"STEP": step, "BLOCK_N": columns, "num_warps": warps_of_part(columns)}
    part_statistics = x.new_empty((M, parts, 4), dtype=torch.float32)
    arguments = (dy, x, weight, part_statistics, dy.stride(0), x.stride(0), N)
    launch(layer_norm_backward_parts_kernel, (M, parts), *arguments, **part)
    tile = {"BLOCK_N": columns, "PARTS": triton.next_power_of_2(parts), "num_warps": 1}
    launch(layer_norm_backward_joined_kernel, (M,), part_statistics, statistics, M, N, eps, parts, **tile)


def wide(
    dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> Gradients:
    """dx, dweight and dbias of a matrix with at least one element. Deterministic on one kind of GPU."""
    dx = empty_contiguous(x)
    dy, x, weight = as_rows(dy), as_rows(x), as_columns(weight)
    M, N = x.shape
    strides, step = (dy.stride(0), x.stride(0)), pack_size(N, dy, x, weight, dx)
    statistics = x.new_empty((4, M), dtype=torch.float32)
    if few_rows(M, x.device, rows_per_multiprocessor=4):
        statistics_by_parts(dy, x, weight, eps, statistics, step)
    else:
        row_arguments = (dy, x, weight, statistics, *strides, M, N, eps)
        tile = {"STEP": step, "BLOCK_N": 1_024, "num_warps": 4}
        launch(layer_norm_backward_statistics_kernel, (M,), *row_arguments, **tile)
    # Tiles of 4 rows, 32 values a thread: registers for 5 programs a multiprocessor.
    ROWS, BLOCK_N, warps, per_multiprocessor = 4, 512, 2, 5
    across = triton.cdiv(N, BLOCK_N)
    together = per_multiprocessor * multiprocessors(x.device)
    # A few rows are one program's, where there are programs enough side by side: its sums are then those of all rows.
    alone = M <= 4 * ROWS and across >= multiprocessors(x.device)
    programs = 1 if alone else min(triton.cdiv(M, ROWS), max(together // across, 1))
    sums = Partials(programs, weight, bias, alone)
    arguments = (dy, x, weight, statistics, dx, sums.dweight, sums.dbias, *strides, M, N)
    tile = {"STEP": step, "ROWS": ROWS, "BLOCK_N": BLOCK_N, "num_warps": warps}
    launch(layer_norm_backward_columns_kernel, (across, programs), *arguments, **tile)
    return dx, *sums.add_up()
