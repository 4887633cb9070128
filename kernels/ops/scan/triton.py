"""Level 4: the cumulative sum along rows in Triton, from the left or, for the gradient, from the right.

row        one program a row, or some narrow ones, in one pass: blocks of columns, each with the sum of those before.
parts      a few long rows: one program a part of a row, whose sums another kernel has made.

Sums are float64: a long chain of float32 sums would lose the last three bits, and the kernel waits for memory anyway.
"""

from functools import partial

import torch
import triton
import triton.language as tl

from kernels import row_parts
from kernels.arguments import as_rows, empty_contiguous
from kernels.machine import multiprocessors
from kernels.row_parts import at_once
from kernels.rung import rung
from kernels.triton.launch import launch

LONG = 8_192  # columns, from which a few rows are divided
MOST_PARTS = 1_024


@triton.jit
def scan_sums_kernel(x_ptr, sums_ptr, x_stride, N, width, REVERSED: tl.constexpr, BLOCK_N: tl.constexpr):
    """sums[row][part], of every part but the last."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    sums = tl.zeros((BLOCK_N,), tl.float64)
    for start in range(0, width, BLOCK_N):
        columns = part * width + start + tl.arange(0, BLOCK_N)
        if REVERSED:
            columns = N - 1 - columns
        sums += tl.load(x_ptr + row * x_stride + columns).to(tl.float64)
    tl.store(sums_ptr + row * tl.num_programs(1) + part, tl.sum(sums))


@triton.jit
def scan_rows_kernel(
    x_ptr, y_ptr, sums_ptr, x_stride, M, N, width,
    REVERSED: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr, SLOTS: tl.constexpr,
):  # fmt: skip
    """Some rows, or a part of one: `width` columns of it. sums may be None where there is one part."""
    rows, part = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None], tl.program_id(1)
    carry = tl.zeros((ROWS,), tl.float64)
    if sums_ptr is not None:
        slots, parts = tl.arange(0, SLOTS)[None, :], tl.num_programs(1) - 1
        carry += tl.sum(tl.load(sums_ptr + rows * parts + slots, mask=slots < part, other=0.0), 1)
    for start in range(part * width, min((part + 1) * width, N), BLOCK_N):
        columns = start + tl.arange(0, BLOCK_N)[None, :]
        inside = (rows < M) & (columns < N)
        if REVERSED:
            columns = N - 1 - columns
        x = tl.load(x_ptr + rows * x_stride + columns, mask=inside, other=0.0).to(tl.float64)
        tl.store(y_ptr + rows * N + columns, tl.cumsum(x, 1) + carry[:, None], mask=inside)
        carry += tl.sum(x, 1)


def scanned(in_parts: bool, reversed: bool, x: torch.Tensor) -> torch.Tensor:
    y = empty_contiguous(x)
    if not x.numel():
        return y
    given = as_rows(x)
    M, N = given.shape
    block, parts, sums = min(triton.next_power_of_2(N), 2_048), 1, None
    if in_parts and N > LONG and (many := multiprocessors(x.device)) >= 2 * M:
        parts = min(2 * many // M, MOST_PARTS)
    width = block * triton.cdiv(N, block * parts)
    parts = triton.cdiv(N, width)
    few = at_once(M, N, x.device)  # then a row is done soonest by many threads, else by few with many loads in flight
    warps = min(max(block // (128 if few else 512), 1), 8)
    options = {"REVERSED": reversed, "BLOCK_N": block, "num_warps": warps}
    if parts > 1:
        sums = torch.empty((M, parts - 1), dtype=torch.float64, device=x.device)
        launch(scan_sums_kernel, (M, parts - 1), given, sums, given.stride(0), N, width, **options)
    options["ROWS"] = 1 if few or parts > 1 else max(min(1_024 // block, 16), 1)
    options["SLOTS"] = triton.next_power_of_2(parts)
    grid = triton.cdiv(M, options["ROWS"]), parts
    launch(scan_rows_kernel, grid, given, y, sums, given.stride(0), M, N, width, **options)
    return y


FORWARD = (
    rung(4, "row", partial(scanned, False, False), "a program a row, in one pass", row_parts),
    rung(4, "parts", partial(scanned, True, False), "a few long rows by many programs", row_parts),
)
BACKWARD = (rung(4, "reversed", partial(scanned, True, True), "the same from the right", row_parts),)
