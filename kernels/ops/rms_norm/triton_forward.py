"""Level 4: RMS norm in Triton, forward: y = x / sqrt(mean of x² + eps) · weight for the rows of an M×N matrix, in float32.

Rungs, plain to best:
    passes    one program a row, which reads it twice: for the sum of squares, for the result.
    rows      the row is read once and kept in registers, narrow rows several at a time.
    parts     rows too few to fill the GPU: one program a part of a row; the sums of the parts are joined by a second kernel.
Rows too wide for `rows` go to `passes`.
"""

from functools import partial
from pathlib import Path

import torch
import triton
import triton.language as tl

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.operation import Variant
from kernels.row_parts import at_once, few_rows
from kernels.triton import row_tiles
from kernels.triton.launch import launch
from kernels.triton.row_tiles import row_tile
from kernels.unsupported import needs_interpreter

WIDEST_KEPT = 8_192  # beyond it a row takes so many registers that its multiprocessor has none for a second program
PART = {"BLOCK_N": 4_096, "num_warps": 8}


@triton.jit
def rms_norm_passes_kernel(x_ptr, weight_ptr, y_ptr, x_stride, N: tl.constexpr, eps, BLOCK_N: tl.constexpr):
    # N is known to the compiler, which can then unroll the loops and have the loads of several blocks on their way.
    row, lanes = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK_N)
    x_ptr += row * x_stride
    squares = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, N, BLOCK_N):
        inside = start + lanes < N
        # What is read again is asked to stay in cache, and what is read for the last time to go first.
        x = tl.load(x_ptr + start + lanes, mask=inside, other=0.0, eviction_policy="evict_last").to(tl.float32)
        squares += x * x
    rstd = 1.0 / tl.sqrt(tl.div_rn(tl.sum(squares), tl.cast(N, tl.float32)) + eps)
    for start in range(0, N, BLOCK_N):
        columns, inside = start + lanes, start + lanes < N
        y = tl.load(x_ptr + columns, mask=inside, other=0.0, eviction_policy="evict_first").to(tl.float32) * rstd
        if weight_ptr is not None:
            y *= tl.load(weight_ptr + columns, mask=inside, other=0.0, eviction_policy="evict_last").to(tl.float32)
        # y is not read again here: its place in the cache is the first to be given up.
        tl.store(y_ptr + row * N + columns, y, mask=inside, cache_modifier=".cs")


@triton.jit
def rms_norm_rows_kernel(
    x_ptr, weight_ptr, y_ptr, x_stride, M, N, eps, ROWS: tl.constexpr, BLOCK_N: tl.constexpr, FEW: tl.constexpr
):
    """FEW: nothing hides a wait, so the weights are asked for with the rows: no compiler moves a load across a sum."""
    rows = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    columns = tl.arange(0, BLOCK_N)[None, :]
    inside = (rows < M) & (columns < N)
    x = tl.load(x_ptr + rows * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
    weight = 1.0
    if FEW and weight_ptr is not None:
        weight = tl.load(weight_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    rstd = 1.0 / tl.sqrt(tl.div_rn(tl.sum(x * x, 1), tl.cast(N, tl.float32)) + eps)
    if not FEW and weight_ptr is not None:
        weight = tl.load(weight_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
    tl.store(y_ptr + rows * N + columns, x * rstd[:, None] * weight, mask=inside)


@triton.jit
def rms_norm_parts_kernel(
    x_ptr, weight_ptr, y_ptr, squares_ptr, x_stride, N, eps, SLOTS: tl.constexpr, BLOCK_N: tl.constexpr
):
    """squares: M×S, the sum of x² over each of the S parts of a row. They are written where there is no y, else read."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns = part * BLOCK_N + tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * x_stride + columns, mask=columns < N, other=0.0).to(tl.float32)
    squares_ptr += row * tl.num_programs(1)
    if y_ptr is None:
        tl.store(squares_ptr + part, tl.sum(x * x))
    else:
        slots = tl.arange(0, SLOTS)
        squares = tl.sum(tl.load(squares_ptr + slots, mask=slots < tl.num_programs(1), other=0.0))
        y = x * (1.0 / tl.sqrt(tl.div_rn(squares, tl.cast(N, tl.float32)) + eps))
        if weight_ptr is not None:
            y *= tl.load(weight_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
        tl.store(y_ptr + row * N + columns, y, mask=columns < N)


def by_passes(x, weight, y, eps) -> None:
    M, N = x.shape
    block = min(triton.next_power_of_2(N), 8_192)
    tile = {"BLOCK_N": block, "num_warps": min(max(triton.next_power_of_2(N) // 1_024, 1), 32)}
    launch(rms_norm_passes_kernel, (M,), x, weight, y, x.stride(0), N, eps, **tile)


def by_rows(x, weight, y, eps) -> None:
    M, N = x.shape
    if N > WIDEST_KEPT:
        return by_passes(x, weight, y, eps)
    tile = row_tile(M, N, x.device) | {"FEW": at_once(M, N, x.device)}
    launch(rms_norm_rows_kernel, (triton.cdiv(M, tile["ROWS"]),), x, weight, y, x.stride(0), M, N, eps, **tile)


def by_parts(x, weight, y, eps) -> None:
    M, N = x.shape
    if not few_rows(M, x.device) or N <= WIDEST_KEPT:
        return by_rows(x, weight, y, eps)
    S = triton.cdiv(N, PART["BLOCK_N"])
    squares = torch.empty((M, S), dtype=torch.float32, device=x.device)
    for out in (None, y):
        tile = {"SLOTS": triton.next_power_of_2(S)} | PART
        launch(rms_norm_parts_kernel, (M, S), x, weight, out, squares, x.stride(0), N, eps, **tile)


def run(by, x, weight, eps) -> torch.Tensor:
    y = empty_contiguous(x)
    if y.numel():
        by(as_rows(x), as_columns(weight), y, eps)
    return y


def rung(name: str, idea: str, by) -> Variant:
    return Variant(4, name, partial(run, by), idea, (Path(__file__), Path(row_tiles.__file__)), needs_interpreter)


FORWARD = (
    rung("passes", "one program a row, which reads it twice", by_passes),
    rung("rows", "read once, kept in registers, narrow rows several at a time", by_rows),
    rung("parts", "few wide rows: one program a part, joined by a second kernel", by_parts),
)
