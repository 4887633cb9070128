"""Level 4: addition and RMS norm in Triton, forward and backward; rows of any width are read twice."""

import torch
import triton
import triton.language as tl

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.machine import multiprocessors
from kernels.rung import rung
from kernels.triton import column_sums
from kernels.triton.column_sums import Partials, store_partial
from kernels.triton.launch import launch
from kernels.triton.rows import one_program_a_row


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
    M, N, ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
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
        dx = dh + rstd * (dy * weight - h * rstd * mean_gn)
        # Twice: an operator may not return one tensor as two outputs.
        tl.store(dx_ptr + rows * N + columns, dx, mask=inside)
        tl.store(dresidual_ptr + rows * N + columns, dx, mask=inside)
        dweight += dy * (h * rstd)
    store_partial(dweight_ptr, dweight, tl.program_id(1), columns, N)


def passes(x, residual, weight, eps):
    y, h = empty_contiguous(x), empty_contiguous(x)
    one_program_a_row(add_rms_norm_passes_kernel, (x, residual), (as_columns(weight), y, h), eps)
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
    launch(add_rms_norm_backward_columns_kernel, grid, *tensors, *strides, M, N, ROWS=4, BLOCK_N=512, num_warps=2)
    return dx, dresidual, sums.add_up()[0]


FORWARD = (rung(4, "passes", passes, "one program a row, read twice", column_sums),)
BACKWARD = (rung(4, "columns", columns, "statistics by rows, then all else by columns", column_sums),)
