"""Level 4: addition and RMS norm in Triton, forward and backward.

Rungs of the forward, plain to best:
    passes    one program a row of any width, which is read twice.
    rows      the row is read once and kept in registers, narrow rows several at a time; few rows too wide for
              that are divided among programs (kernels/ops/rms_norm/triton_split.py).
Rungs of the backward:
    columns     a kernel for the sums along rows, another that takes the matrix in tiles for all else.
    prefetch    a few programs, each of which walks over many rows, reads them once and keeps its sums of columns in
                registers, while the next rows are on their way. A matrix that one program has room for is its own.
Rows too wide for the registers go to `passes` and `columns`.
"""

import torch
import triton
import triton.language as tl

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.hardware import WARP
from kernels.machine import multiprocessors
from kernels.ops.layer_norm.triton_backward import prefetch_parameters, too_wide, whole
from kernels.ops.rms_norm import triton_split
from kernels.ops.rms_norm.triton_backward import of_row
from kernels.row_parts import at_once, few_rows
from kernels.rung import rung
from kernels.triton import column_sums, row_tiles
from kernels.triton.column_sums import Partials, store_partial
from kernels.triton.launch import launch
from kernels.triton.row_tiles import in_steps, row_tile
from kernels.triton.rows import one_program_a_row
from kernels.vectors import pack_size

# Bytes of a row of x that the registers keep; half as many where rows do not all start at multiples of ALIGNED elements, by
# which Triton goes: every value is then loaded alone.
MOST_KEPT, ALIGNED = 65_536, 16
WIDE = 8_192  # columns beyond which a multiprocessor has registers for one row or two


@triton.jit
def add_rms_norm_passes_kernel(
    x_ptr, residual_ptr, weight_ptr, y_ptr, h_ptr, x_stride, residual_stride, N, eps, BLOCK_N: tl.constexpr
):
    row, lanes = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK_N)
    squares = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, N, BLOCK_N):
        columns, inside = start + lanes, start + lanes < N
        h = tl.load(x_ptr + row * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
        h += tl.load(residual_ptr + row * residual_stride + columns, mask=inside, other=0.0).to(tl.float32)
        tl.store(h_ptr + row * N + columns, h, mask=inside)
        squares += h * h
    rstd = 1.0 / tl.sqrt(tl.div_rn(tl.sum(squares), tl.cast(N, tl.float32)) + eps)
    for start in range(0, N, BLOCK_N):
        columns, inside = start + lanes, start + lanes < N
        # Not the h in memory, which has been rounded.
        h = tl.load(x_ptr + row * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
        h += tl.load(residual_ptr + row * residual_stride + columns, mask=inside, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
        tl.store(y_ptr + row * N + columns, h * rstd * weight, mask=inside)


@triton.jit
def add_rms_norm_rows_kernel(
    x_ptr, residual_ptr, weight_ptr, y_ptr, h_ptr, x_stride, residual_stride, M, N, eps,
    STEP: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr, FEW: tl.constexpr,
):  # fmt: skip
    """FEW: nothing hides a wait, so the weights are asked for with the rows: no compiler moves a load across a sum."""
    x_stride, residual_stride, N = in_steps(x_stride, STEP), in_steps(residual_stride, STEP), in_steps(N, STEP)
    rows = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    columns = tl.arange(0, BLOCK_N)[None, :]
    inside = (rows < M) & (columns < N)
    h = tl.load(x_ptr + rows * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
    h += tl.load(residual_ptr + rows * residual_stride + columns, mask=inside, other=0.0).to(tl.float32)
    if FEW:
        weight = tl.load(weight_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    tl.store(h_ptr + rows * N + columns, h, mask=inside)
    rstd = 1.0 / tl.sqrt(tl.div_rn(tl.sum(h * h, 1), tl.cast(N, tl.float32)) + eps)
    if not FEW:
        weight = tl.load(weight_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    tl.store(y_ptr + rows * N + columns, h * rstd[:, None] * weight, mask=inside)


@triton.jit
def add_rms_norm_backward_statistics_kernel(
    dy_ptr, h_ptr, weight_ptr, statistics_ptr, dy_stride, h_stride, N, eps, BLOCK_N: tl.constexpr
):
    row, lanes = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK_N)
    squares, products = tl.zeros((BLOCK_N,), tl.float32), tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, N, BLOCK_N):
        columns, inside = start + lanes, start + lanes < N
        h = tl.load(h_ptr + row * h_stride + columns, mask=inside, other=0.0).to(tl.float32)
        g = tl.load(dy_ptr + row * dy_stride + columns, mask=inside, other=0.0).to(tl.float32)
        g *= tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
        squares += h * h
        products += g * h
    count = tl.cast(N, tl.float32)
    rstd = 1.0 / tl.sqrt(tl.div_rn(tl.sum(squares), count) + eps)
    tl.store(statistics_ptr + 2 * row, rstd)
    tl.store(statistics_ptr + 2 * row + 1, tl.div_rn(tl.sum(products), count) * rstd)


@triton.jit
def add_rms_norm_backward_columns_kernel(
    dy_ptr, dh_ptr, h_ptr, weight_ptr, statistics_ptr, dx_ptr, dresidual_ptr, dweight_ptr, dy_stride, dh_stride, h_stride,
    M, N, eps, ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    columns = (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    weight = tl.load(weight_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    dweight = tl.zeros((ROWS, BLOCK_N), tl.float32)
    for start in range(tl.program_id(1) * ROWS, M, tl.num_programs(1) * ROWS):
        rows = (start + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        inside = (rows < M) & (columns < N)
        dy = tl.load(dy_ptr + rows * dy_stride + columns, mask=inside, other=0.0).to(tl.float32)
        dh = tl.load(dh_ptr + rows * dh_stride + columns, mask=inside, other=0.0).to(tl.float32)
        h = tl.load(h_ptr + rows * h_stride + columns, mask=inside, other=0.0).to(tl.float32)
        rstd = tl.load(statistics_ptr + 2 * rows, mask=rows < M, other=0.0)
        mean_gn = tl.load(statistics_ptr + 2 * rows + 1, mask=rows < M, other=0.0)
        n = h * rstd
        scale, mean_gn = of_row(rstd, mean_gn, N, eps)
        dx = dh + scale * (dy * weight - n * mean_gn)
        # Twice: an operator may not return one tensor as two outputs.
        tl.store(dx_ptr + rows * N + columns, dx, mask=inside)
        tl.store(dresidual_ptr + rows * N + columns, dx, mask=inside)
        dweight += dy * n
    store_partial(dweight_ptr, dweight, tl.program_id(1), columns, N)


@triton.jit
def add_rms_norm_backward_rows_kernel(
    dy_ptr, dh_ptr, h_ptr, weight_ptr, dx_ptr, dresidual_ptr, dweight_ptr, dy_stride, dh_stride, h_stride, M, N, eps,
    STEP: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    dy_stride, dh_stride = in_steps(dy_stride, STEP), in_steps(dh_stride, STEP)
    h_stride, N = in_steps(h_stride, STEP), in_steps(N, STEP)
    columns = tl.arange(0, BLOCK_N)[None, :]
    weight = tl.load(weight_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    dweight = tl.zeros((ROWS, BLOCK_N), tl.float32)
    count = tl.cast(N, tl.float32)
    for start in tl.range(tl.program_id(0) * ROWS, M, tl.num_programs(0) * ROWS, num_stages=STAGES):
        rows = (start + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        inside = (rows < M) & (columns < N)
        dy = tl.load(dy_ptr + rows * dy_stride + columns, mask=inside, other=0.0).to(tl.float32)
        dh = tl.load(dh_ptr + rows * dh_stride + columns, mask=inside, other=0.0).to(tl.float32)
        h = tl.load(h_ptr + rows * h_stride + columns, mask=inside, other=0.0).to(tl.float32)
        g = dy * weight
        # Both sums at once, so that warps wait for each other once a row.
        rstd = (1.0 / tl.sqrt(tl.div_rn(tl.sum(h * h, 1), count) + eps))[:, None]
        mean_gn = tl.div_rn(tl.sum(g * h, 1), count)[:, None] * rstd
        n = h * rstd
        scale, mean_gn = of_row(rstd, mean_gn, N, eps)
        dx = dh + scale * (g - n * mean_gn)
        # Twice: an operator may not return one tensor as two outputs.
        tl.store(dx_ptr + rows * N + columns, dx, mask=inside)
        tl.store(dresidual_ptr + rows * N + columns, dx, mask=inside)
        dweight += dy * n
    store_partial(dweight_ptr, dweight, tl.program_id(0), columns, N)


def passes(x, residual, weight, eps):
    y, h = empty_contiguous(x), empty_contiguous(x)
    one_program_a_row(add_rms_norm_passes_kernel, (x, residual), (as_columns(weight), y, h), eps)
    return y, h


def kept_tile(M: int, N: int, device: torch.device) -> dict[str, int]:
    """As `row_tile`; of many wide rows 32 values a thread: there is hardly a second program to hide a wait, so warps do."""
    tile = row_tile(M, N, device) | {"FEW": at_once(M, N, device)}
    return tile if N <= WIDE or tile["FEW"] else tile | {"num_warps": tile["BLOCK_N"] // (WARP * 32)}


def rows(x, residual, weight, eps):
    if not x.numel():
        return passes(x, residual, weight, eps)
    matrix, other = as_rows(x), as_rows(residual)
    (M, N), strides = matrix.shape, (matrix.stride(0), other.stride(0))
    aligned = all(n % ALIGNED == 0 for n in (N, *strides, matrix.data_ptr(), other.data_ptr()))
    too_wide = (MOST_KEPT if aligned else MOST_KEPT // 2) < N * x.itemsize
    if too_wide and not few_rows(M, x.device):
        return passes(x, residual, weight, eps)
    y, h = empty_contiguous(x), empty_contiguous(x)
    if too_wide:
        triton_split.by_parts(matrix, other, as_columns(weight), h, y, eps)
        return y, h
    tile = kept_tile(M, N, x.device)
    weight = as_columns(weight)
    tile["STEP"] = pack_size(N, matrix, other, weight, y.view(M, N))
    arguments = (matrix, other, weight, y, h, *strides, M, N, eps)
    launch(add_rms_norm_rows_kernel, (triton.cdiv(M, tile["ROWS"]),), *arguments, **tile)
    return y, h


def columns(dy, dh, h, weight, eps):
    dx, dresidual = empty_contiguous(h), empty_contiguous(h)
    if not h.numel():
        return dx, dresidual, torch.zeros_like(weight)
    dy, dh, h, weight = as_rows(dy), as_rows(dh), as_rows(h), as_columns(weight)
    M, N = h.shape
    statistics = h.new_empty((M, 2), dtype=torch.float32)
    one_program_a_row(add_rms_norm_backward_statistics_kernel, (dy, h), (weight, statistics), eps)
    across = triton.cdiv(N, 512)
    sums = Partials(min(triton.cdiv(M, 4), max(5 * multiprocessors(h.device) // across, 1)), weight)
    strides = dy.stride(0), dh.stride(0), h.stride(0)
    tensors = dy, dh, h, weight, statistics, dx, dresidual, sums.dweight
    grid = across, sums.programs
    launch(add_rms_norm_backward_columns_kernel, grid, *tensors, *strides, M, N, eps, ROWS=4, BLOCK_N=512, num_warps=2)
    return dx, dresidual, sums.add_up()[0]


def prefetch(dy, dh, h, weight, eps):
    """Deterministic on one kind of GPU: which rows a program adds up, and in which order, is fixed."""
    M, N = h.shape[:-1].numel(), h.shape[-1]
    if not h.numel() or (too_wide(N) and not whole(M, N)):
        return columns(dy, dh, h, weight, eps)
    dx, dresidual, dy, dh, h = empty_contiguous(h), empty_contiguous(h), as_rows(dy), as_rows(dh), as_rows(h)
    tile = prefetch_parameters(M, N)
    tile["STAGES"] = min(tile["STAGES"], 3)  # of three tensors a row, for which every GPU has room
    programs = min(triton.cdiv(M, tile["ROWS"]), tile.pop("per_multiprocessor") * multiprocessors(h.device))
    sums = Partials(programs, weight, alone=whole(M, N))
    weight = as_columns(weight)
    tile["STEP"] = pack_size(N, dy, dh, h, weight, dx)
    tensors = dy, dh, h, weight, dx, dresidual, sums.dweight
    strides = dy.stride(0), dh.stride(0), h.stride(0)
    launch(add_rms_norm_backward_rows_kernel, (programs,), *tensors, *strides, M, N, eps, **tile)
    return dx, dresidual, sums.add_up()[0]


FORWARD = (
    rung(4, "passes", passes, "one program a row, read twice", column_sums),
    rung(
        4,
        "rows",
        rows,
        "read once, kept in registers, narrow rows several at a time",
        column_sums,
        row_tiles,
        triton_split,
    ),
)
BACKWARD = (
    rung(4, "columns", columns, "statistics by rows, then all else by columns", column_sums),
    rung(4, "prefetch", prefetch, "rows read once, the next on their way meanwhile", column_sums),
)
