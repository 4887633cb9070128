"""Level 4: RMS norm in Triton, forward: y = x / sqrt(mean of x² + eps) · weight for the rows of an M×N matrix, in float32.

Rungs, plain to best:
    passes    one program a row, which reads it twice: for the sum of squares, for the result.
    rows      the row is read once and kept in registers, narrow rows several at a time.
    parts     rows too few to fill the GPU: one program a part of a row, as triton_split.py has it.
Rows too wide for `rows` go to `passes`.
"""

from functools import partial

import torch
import triton
import triton.language as tl

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.ops.rms_norm import triton_split
from kernels.row_parts import at_once, few_rows
from kernels.rung import rung
from kernels.triton import row_tiles
from kernels.triton.launch import launch
from kernels.triton.row_tiles import in_steps, row_tile
from kernels.vectors import pack_size

WIDEST_KEPT = 8_192  # beyond it a row takes so many registers that its multiprocessor has none for a second program


@triton.jit
def rms_norm_passes_kernel(
    x_ptr, weight_ptr, y_ptr, x_stride, N: tl.constexpr, eps, STEP: tl.constexpr, BLOCK_N: tl.constexpr
):
    # N is known to the compiler, which can then unroll the loops and have the loads of several blocks on their way.
    row, lanes = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK_N)
    x_ptr += row * in_steps(x_stride, STEP)
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
    x_ptr, weight_ptr, y_ptr, x_stride, M, N, eps,
    STEP: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr, FEW: tl.constexpr,
):  # fmt: skip
    """FEW: nothing hides a wait, so the weights are asked for with the rows: no compiler moves a load across a sum."""
    x_stride, N = in_steps(x_stride, STEP), in_steps(N, STEP)
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


def by_passes(x, weight, y, eps) -> None:
    M, N = x.shape
    block = min(triton.next_power_of_2(N), 8_192)
    tile = {
        "STEP": pack_size(N, x, weight, y),
        "BLOCK_N": block,
        "num_warps": min(max(triton.next_power_of_2(N) // 1_024, 1), 32),
    }
    launch(rms_norm_passes_kernel, (M,), x, weight, y, x.stride(0), N, eps, **tile)


def by_rows(x, weight, y, eps) -> None:
    M, N = x.shape
    if N > WIDEST_KEPT:
        return by_passes(x, weight, y, eps)
    tile = row_tile(M, N, x.device) | {"STEP": pack_size(N, x, weight, y), "FEW": at_once(M, N, x.device)}
    launch(rms_norm_rows_kernel, (triton.cdiv(M, tile["ROWS"]),), x, weight, y, x.stride(0), M, N, eps, **tile)


def by_parts(x, weight, y, eps) -> None:
    M, N = x.shape
    if not few_rows(M, x.device) or N <= WIDEST_KEPT:
        return by_rows(x, weight, y, eps)
    triton_split.by_parts(x, None, weight, None, y, eps)


def run(by, x, weight, eps) -> torch.Tensor:
    y = empty_contiguous(x)
    if y.numel():
        by(as_rows(x), as_columns(weight), y, eps)
    return y


FORWARD = (
    rung(4, "passes", partial(run, by_passes), "one program a row, which reads it twice", row_tiles),
    rung(4, "rows", partial(run, by_rows), "read once, kept in registers, narrow rows several at a time", row_tiles),
    rung(
        4,
        "parts",
        partial(run, by_parts),
        "few wide rows: one program a part, joined by a second kernel",
        row_tiles,
        triton_split,
    ),
)
