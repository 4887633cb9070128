"""Level 4: RMS norm in Triton, backward. With n_ij = x_ij · rstd_i and g_ij = dy_ij · weight_j:

    dx_ij     = rstd_i · (g_ij - n_ij · 1/N · sum_k g_ik n_ik)
    dweight_j = sum_i dy_ij · n_ij

Rungs, plain to best:
    columns     a kernel for the sums along rows, another that takes the matrix in tiles for all else: dy and x are read twice.
    prefetch    a few programs, each of which walks over many rows, reads them once and keeps its sums of columns in
                registers, while the next rows are on their way. A matrix that one program has room for is its own.
Rows too wide for the registers go to `columns`.
"""

from pathlib import Path

import torch
import triton
import triton.language as tl

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.machine import multiprocessors
from kernels.operation import Variant
from kernels.ops.layer_norm.triton_backward import prefetch_parameters, too_wide, whole
from kernels.triton import column_sums
from kernels.triton.column_sums import Partials, store_partial
from kernels.triton.launch import launch
from kernels.triton.row_tiles import in_steps
from kernels.unsupported import needs_interpreter
from kernels.vectors import pack_size


@triton.jit
def of_row(rstd, mean_gn, N, eps):
    """scale and mean_gn of dx = scale * (g - n * mean_gn)."""
    # Of one column n * n is 1 - eps * rstd * rstd, and the difference of g and n * mean_gn nothing but what was rounded.
    # 0 times infinity is NaN, as the difference is.
    return tl.where(N > 1, rstd, rstd * (eps * rstd * rstd)), tl.where(N > 1, mean_gn, 0.0 * mean_gn)


@triton.jit
def rms_norm_backward_statistics_kernel(
    dy_ptr, x_ptr, weight_ptr, statistics_ptr, dy_stride, x_stride, N, eps, STEP: tl.constexpr, BLOCK_N: tl.constexpr
):
    """rstd and the mean of g · n of each row."""
    dy_stride, x_stride, N = in_steps(dy_stride, STEP), in_steps(x_stride, STEP), in_steps(N, STEP)
    row, lanes = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK_N)
    squares, products = tl.zeros((BLOCK_N,), tl.float32), tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, N, BLOCK_N):
        columns, inside = start + lanes, start + lanes < N
        x = tl.load(x_ptr + row * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
        g = tl.load(dy_ptr + row * dy_stride + columns, mask=inside, other=0.0).to(tl.float32)
        if weight_ptr is not None:
            g *= tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
        squares += x * x
        products += g * x
    count = tl.cast(N, tl.float32)
    rstd = 1.0 / tl.sqrt(tl.div_rn(tl.sum(squares), count) + eps)
    tl.store(statistics_ptr + 2 * row, rstd)
    tl.store(statistics_ptr + 2 * row + 1, tl.div_rn(tl.sum(products), count) * rstd)


@triton.jit
def rms_norm_backward_columns_kernel(
    dy_ptr, x_ptr, weight_ptr, statistics_ptr, dx_ptr, dweight_ptr, dy_stride, x_stride, M, N, eps,
    STEP: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    dy_stride, x_stride, N = in_steps(dy_stride, STEP), in_steps(x_stride, STEP), in_steps(N, STEP)
    columns = (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    weight = 1.0
    if weight_ptr is not None:
        weight = tl.load(weight_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    dweight = tl.zeros((ROWS, BLOCK_N), tl.float32)
    for start in range(tl.program_id(1) * ROWS, M, tl.num_programs(1) * ROWS):
        rows = (start + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        inside = (rows < M) & (columns < N)
        dy = tl.load(dy_ptr + rows * dy_stride + columns, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + rows * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
        rstd = tl.load(statistics_ptr + 2 * rows, mask=rows < M, other=0.0)
        mean_gn = tl.load(statistics_ptr + 2 * rows + 1, mask=rows < M, other=0.0)
        n = x * rstd
        scale, mean_gn = of_row(rstd, mean_gn, N, eps)
        tl.store(dx_ptr + rows * N + columns, scale * (dy * weight - n * mean_gn), mask=inside)
        dweight += dy * n
    store_partial(dweight_ptr, dweight, tl.program_id(1), columns, N)


@triton.jit
def rms_norm_backward_rows_kernel(
    dy_ptr, x_ptr, weight_ptr, dx_ptr, dweight_ptr, dy_stride, x_stride, M, N, eps,
    STEP: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    dy_stride, x_stride, N = in_steps(dy_stride, STEP), in_steps(x_stride, STEP), in_steps(N, STEP)
    columns = tl.arange(0, BLOCK_N)[None, :]
    weight = 1.0
    if weight_ptr is not None:
        weight = tl.load(weight_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    dweight = tl.zeros((ROWS, BLOCK_N), tl.float32)
    count = tl.cast(N, tl.float32)
    for start in tl.range(tl.program_id(0) * ROWS, M, tl.num_programs(0) * ROWS, num_stages=STAGES):
        rows = (start + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        inside = (rows < M) & (columns < N)
        dy = tl.load(dy_ptr + rows * dy_stride + columns, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + rows * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
        g = dy * weight
        # Both sums at once, so that warps wait for each other once a row.
        rstd = (1.0 / tl.sqrt(tl.div_rn(tl.sum(x * x, 1), count) + eps))[:, None]
        mean_gn = tl.div_rn(tl.sum(g * x, 1), count)[:, None] * rstd
        n = x * rstd
        scale, mean_gn = of_row(rstd, mean_gn, N, eps)
        tl.store(dx_ptr + rows * N + columns, scale * (g - n * mean_gn), mask=inside)
        dweight += dy * n
    store_partial(dweight_ptr, dweight, tl.program_id(0), columns, N)


def columns(dy, x, weight, eps):
    """Deterministic on one kind of GPU: which rows a program adds up, and in which order, is fixed."""
    dx = empty_contiguous(x)
    if not x.numel():
        return dx, None if weight is None else weight.new_zeros(weight.shape)
    dy, x, weight = as_rows(dy), as_rows(x), as_columns(weight)
    M, N = x.shape
    statistics, strides = x.new_empty((M, 2), dtype=torch.float32), (dy.stride(0), x.stride(0))
    step = pack_size(N, dy, x, weight, dx)
    tile = {"STEP": step, "BLOCK_N": min(triton.next_power_of_2(N), 1_024), "num_warps": 4}
    launch(rms_norm_backward_statistics_kernel, (M,), dy, x, weight, statistics, *strides, N, eps, **tile)
    across = triton.cdiv(N, 512)
    # Tiles of 4 rows, 32 values a thread: registers for 5 programs a multiprocessor.
    sums = Partials(min(triton.cdiv(M, 4), max(5 * multiprocessors(x.device) // across, 1)), weight)
    grid, tensors = (across, sums.programs), (dy, x, weight, statistics, dx, sums.dweight)
    tile = {"STEP": step, "ROWS": 4, "BLOCK_N": 512, "num_warps": 2}
    launch(rms_norm_backward_columns_kernel, grid, *tensors, *strides, M, N, eps, **tile)
    return dx, sums.add_up()[0]


def prefetch(dy, x, weight, eps):
    """Deterministic on one kind of GPU, as `columns`."""
    if not x.numel():
        return columns(dy, x, weight, eps)
    dx, dy_rows, rows = empty_contiguous(x), as_rows(dy), as_rows(x)
    M, N = rows.shape
    alone = whole(M, N)
    if too_wide(N) and not alone:
        return columns(dy, x, weight, eps)
    tile = prefetch_parameters(M, N)
    programs = min(triton.cdiv(M, tile["ROWS"]), tile.pop("per_multiprocessor") * multiprocessors(x.device))
    sums = Partials(programs, weight, alone=alone)
    weight = as_columns(weight)
    arguments = (dy_rows, rows, weight, dx, sums.dweight, dy_rows.stride(0), rows.stride(0), M, N, eps)
    step = pack_size(N, dy_rows, rows, weight, dx)
    launch(rms_norm_backward_rows_kernel, (programs,), *arguments, STEP=step, **tile)
    return dx, sums.add_up()[0]


SOURCE = (Path(__file__), Path(column_sums.__file__))
BACKWARD = (
    Variant(4, "columns", columns, "statistics by rows, then all else by columns", SOURCE, needs_interpreter),
    Variant(4, "prefetch", prefetch, "rows read once, the next on their way meanwhile", SOURCE, needs_interpreter),
)
