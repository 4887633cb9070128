"""Level 4: addition and RMS norm in Triton, backward: dx row by row, then dweight column by column."""

from pathlib import Path

import torch
import triton
import triton.language as tl

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.machine import multiprocessors
from kernels.operation import Variant
from kernels.triton import column_sums
from kernels.triton.column_sums import Partials, store_partials
from kernels.triton.launch import launch
from kernels.unsupported import needs_interpreter


@triton.jit
def add_rms_norm_backward_rows_kernel(
    dy_ptr, dh_ptr, h_ptr, weight_ptr, dx_ptr, dresidual_ptr, rstd_ptr, dy_stride, dh_stride, h_stride, N, eps,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
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
    mean_gn = tl.div_rn(tl.sum(products), count) * rstd
    tl.store(rstd_ptr + row, rstd)
    for start in range(0, N, BLOCK_N):
        columns, inside = start + lanes, start + lanes < N
        h = tl.load(h_ptr + row * h_stride + columns, mask=inside, other=0.0).to(tl.float32)
        g = tl.load(dy_ptr + row * dy_stride + columns, mask=inside, other=0.0).to(tl.float32)
        g *= tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
        dh = tl.load(dh_ptr + row * dh_stride + columns, mask=inside, other=0.0).to(tl.float32)
        dx = dh + rstd * (g - h * rstd * mean_gn)
        # An operator may not return one tensor as two outputs.
        tl.store(dx_ptr + row * N + columns, dx, mask=inside)
        tl.store(dresidual_ptr + row * N + columns, dx, mask=inside)


@triton.jit
def add_rms_norm_backward_columns_kernel(
    dy_ptr, h_ptr, rstd_ptr, dweight_ptr, dy_stride, h_stride, M, N, ROWS: tl.constexpr, BLOCK_N: tl.constexpr
):
    columns = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    sums = tl.zeros((ROWS, BLOCK_N), tl.float32)
    for start in range(tl.program_id(1) * ROWS, M, tl.num_programs(1) * ROWS):
        rows = (start + tl.arange(0, ROWS)).to(tl.int64)[:, None]
        inside = (rows < M) & (columns < N)
        dy = tl.load(dy_ptr + rows * dy_stride + columns, mask=inside, other=0.0).to(tl.float32)
        h = tl.load(h_ptr + rows * h_stride + columns, mask=inside, other=0.0).to(tl.float32)
        sums += dy * h * tl.load(rstd_ptr + rows, mask=rows < M, other=0.0)
    store_partials(dweight_ptr, None, sums, None, tl.program_id(1), columns, N)


def columns(dy, dh, h, weight, eps):
    dx, dresidual = empty_contiguous(h), empty_contiguous(h)
    if not h.numel():
        return dx, dresidual, torch.zeros_like(weight)
    dys, dhs, rows = as_rows(dy), as_rows(dh), as_rows(h)
    M, N = rows.shape
    rstd, block = torch.empty(M, dtype=torch.float32, device=h.device), min(triton.next_power_of_2(N), 8_192)
    arguments = (dys, dhs, rows, as_columns(weight), dx, dresidual, rstd, *(m.stride(0) for m in (dys, dhs, rows)))
    launch(add_rms_norm_backward_rows_kernel, (M,), *arguments, N, eps, BLOCK_N=block, num_warps=max(block // 512, 1))
    blocks = triton.cdiv(N, 64)
    sums = Partials(min(triton.cdiv(M, 32), max(4 * multiprocessors(h.device) // blocks, 1)), weight, None)
    arguments = (dys, rows, rstd, sums.dweight, dys.stride(0), rows.stride(0), M, N)
    launch(add_rms_norm_backward_columns_kernel, (blocks, sums.programs), *arguments, ROWS=32, BLOCK_N=64)
    return dx, dresidual, sums.add_up()[0]


SOURCE = (Path(__file__), Path(column_sums.__file__))
BACKWARD = (Variant(4, "columns", columns, "dx by rows, dweight by columns", SOURCE, needs_interpreter),)
