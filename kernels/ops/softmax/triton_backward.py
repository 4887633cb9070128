"""Level 4: softmax in Triton, backward, from its output y.

    dx_ij = y_ij · (dy_ij - sum_k dy_ik y_ik)

Rungs, plain to best:
    backward-passes    one program a row, which reads dy and y twice: for the sum, for dx.
    backward-rows      both are read once and kept in registers, narrow rows several at a time.
    backward-parts     rows that no cache keeps: one program a part of a row; their sums are joined by a second kernel.
Rows too wide for `backward-rows` go to `backward-passes`.
"""

import torch
import triton
import triton.language as tl

from kernels.ops.softmax.triton_forward import PART, WIDEST_CACHED, WIDEST_KEPT, rows_of_program, rung
from kernels.triton.launch import launch
from kernels.triton.row_tiles import in_steps
from kernels.vectors import pack_size


@triton.jit
def softmax_backward_passes_kernel(
    dy_ptr, y_ptr, dx_ptr, dy_stride, y_stride, N, STEP: tl.constexpr, BLOCK_N: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    dy_stride, y_stride, N = in_steps(dy_stride, STEP), in_steps(y_stride, STEP), in_steps(N, STEP)
    dy_ptr += row * dy_stride
    y_ptr += row * y_stride
    dx_ptr += row * N
    lanes = tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, N, BLOCK_N):
        inside = start + lanes < N
        dy = tl.load(dy_ptr + start + lanes, mask=inside, other=0.0, eviction_policy="evict_last").to(tl.float32)
        y = tl.load(y_ptr + start + lanes, mask=inside, other=0.0, eviction_policy="evict_last").to(tl.float32)
        total += dy * y
    dot = tl.sum(total)
    for start in range(0, N, BLOCK_N):
        inside = start + lanes < N
        dy = tl.load(dy_ptr + start + lanes, mask=inside, other=0.0, eviction_policy="evict_first").to(tl.float32)
        y = tl.load(y_ptr + start + lanes, mask=inside, other=0.0, eviction_policy="evict_first").to(tl.float32)
        tl.store(dx_ptr + start + lanes, y * (dy - dot), mask=inside, cache_modifier=".cs")


@triton.jit
def softmax_backward_rows_kernel(
    dy_ptr, y_ptr, dx_ptr, dy_stride, y_stride, M, N, STEP: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr
):
    dy_stride, y_stride, N = in_steps(dy_stride, STEP), in_steps(y_stride, STEP), in_steps(N, STEP)
    rows = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    columns = tl.arange(0, BLOCK_N)[None, :]
    inside = (rows < M) & (columns < N)
    dy = tl.load(dy_ptr + rows * dy_stride + columns, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + rows * y_stride + columns, mask=inside, other=0.0).to(tl.float32)
    dx = y * (dy - tl.sum(dy * y, 1)[:, None])
    tl.store(dx_ptr + rows * N + columns, dx, mask=inside)


@triton.jit
def softmax_backward_parts_kernel(
    dy_ptr, y_ptr, dx_ptr, dots_ptr, dy_stride, y_stride, N, SLOTS: tl.constexpr, BLOCK_N: tl.constexpr
):
    """dots: M×S, the sum of dy · y over each of the S parts of a row. They are written where there is no dx, else read."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns = part * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = columns < N
    dy = tl.load(dy_ptr + row * dy_stride + columns, mask=inside, other=0.0).to(tl.float32)
    y = tl.load(y_ptr + row * y_stride + columns, mask=inside, other=0.0).to(tl.float32)
    dots_ptr += row * tl.num_programs(1)
    if dx_ptr is None:
        tl.store(dots_ptr + part, tl.sum(dy * y))
    else:
        slots = tl.arange(0, SLOTS)
        dot = tl.sum(tl.load(dots_ptr + slots, mask=slots < tl.num_programs(1), other=0.0))
        tl.store(dx_ptr + row * N + columns, y * (dy - dot), mask=inside)


def by_passes(dy, y, dx) -> None:
    M, N = y.shape
    block = min(triton.next_power_of_2(N), 8_192)
    tile = {"STEP": pack_size(N, dy, y, dx), "BLOCK_N": block, "num_warps": max(block // 256, 1)}
    launch(softmax_backward_passes_kernel, (M,), dy, y, dx, dy.stride(0), y.stride(0), N, **tile)


def by_rows(dy, y, dx) -> None:
    M, N = y.shape
    if N > WIDEST_KEPT:
        return by_passes(dy, y, dx)
    tile, strides = rows_of_program(M, N, y.device), (dy.stride(0), y.stride(0))
    grid, step = (triton.cdiv(M, tile["ROWS"]),), pack_size(N, dy, y, dx)
    launch(softmax_backward_rows_kernel, grid, dy, y, dx, *strides, M, N, step, **tile)


def by_parts(dy, y, dx) -> None:
    M, N = y.shape
    if N <= WIDEST_CACHED:
        return by_rows(dy, y, dx)
    S = triton.cdiv(N, PART["BLOCK_N"])
    dots = torch.empty((M, S), dtype=torch.float32, device=y.device)
    for out in (None, dx):
        tile = {"SLOTS": triton.next_power_of_2(S)} | PART
        launch(softmax_backward_parts_kernel, (M, S), dy, y, out, dots, dy.stride(0), y.stride(0), N, **tile)


BACKWARD = (
    rung("backward-passes", "one program a row, which reads dy and y twice", by_passes, __file__),
    rung("backward-rows", "read once, kept in registers, narrow rows several at a time", by_rows, __file__),
    rung("backward-parts", "widest rows: one program a part, joined by a second kernel", by_parts, __file__),
)
