"""Level 4: softmax in Triton, forward.

Rungs, plain to best:
    passes    one program a row, which reads it three times: for the largest value, for the sum, for the result.
    row       the row is read once and kept in registers.
    rows      narrow rows several at a time.
    parts     rows that no cache keeps: one program a part of a row; what each knows of its part is joined by a second kernel.
Rows too wide for `row` and `rows` go to `passes`.

Each program computes, in float32, y = exp(x - largest) / sum of exp(x - largest) for rows of an M×N matrix.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import triton
import triton.language as tl

from kernels.arguments import as_rows, empty_contiguous
from kernels.operation import Variant
from kernels.row_parts import at_once
from kernels.triton import row_tiles
from kernels.triton.launch import launch
from kernels.triton.row_tiles import in_steps, row_warps
from kernels.triton.rows import one_program_a_row
from kernels.unsupported import needs_interpreter
from kernels.vectors import VECTOR_BYTES, pack_size

WIDEST_KEPT = 8_192  # beyond it a row takes so many registers that its multiprocessor has none for a second program
WIDEST_OF_PROGRAM, WARPS = 32_768, 32  # that a program can keep, and those it has at most
WIDEST_CACHED = 65_536
NARROWEST = 64
PART = {"BLOCK_N": 4_096, "num_warps": 8}
# The lowest finite number. A largest value starts from it and not from -inf, since -inf - -inf is NaN.
LOWEST = tl.constexpr(-3.4028234663852886e38)


@triton.jit
def softmax_passes_kernel(x_ptr, y_ptr, row_stride, N: tl.constexpr, STEP: tl.constexpr, BLOCK_N: tl.constexpr):
    # N is known to the compiler, which can then unroll the loops and have the loads of several blocks on their way.
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * in_steps(row_stride, STEP)
    y_ptr += row * N
    lanes = tl.arange(0, BLOCK_N)

    # Lanes beyond the row hold -inf, not 0: exp makes 0 of that, and a row of negative numbers keeps its largest.
    lane_largest = tl.full((BLOCK_N,), LOWEST, tl.float32)
    for start in range(0, N, BLOCK_N):
        inside = start + lanes < N
        # What is read again is asked to stay in cache, and what is read for the last time to go first.
        x = tl.load(x_ptr + start + lanes, mask=inside, other=float("-inf"), eviction_policy="evict_last")
        lane_largest = tl.maximum(lane_largest, x.to(tl.float32))
    largest = tl.max(lane_largest)

    total = tl.zeros((BLOCK_N,), tl.float32)
    for start in range(0, N, BLOCK_N):
        inside = start + lanes < N
        x = tl.load(x_ptr + start + lanes, mask=inside, other=float("-inf"), eviction_policy="evict_last")
        total += tl.exp(x.to(tl.float32) - largest)
    scale = 1.0 / tl.sum(total)

    for start in range(0, N, BLOCK_N):
        inside = start + lanes < N
        x = tl.load(x_ptr + start + lanes, mask=inside, other=float("-inf"), eviction_policy="evict_first")
        # y is not read again here: its place in the cache is the first to be given up.
        y = tl.exp(x.to(tl.float32) - largest) * scale
        tl.store(y_ptr + start + lanes, y, mask=inside, cache_modifier=".cs")


@triton.jit
def softmax_rows_kernel(x_ptr, y_ptr, row_stride, M, N, STEP: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr):
    row_stride, N = in_steps(row_stride, STEP), in_steps(N, STEP)
    rows = (tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS))[:, None]
    columns = tl.arange(0, BLOCK_N)[None, :]
    inside = (rows < M) & (columns < N)
    x = tl.load(x_ptr + rows * row_stride + columns, mask=inside, other=float("-inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, 1)[:, None])
    tl.store(y_ptr + rows * N + columns, e * (1.0 / tl.sum(e, 1))[:, None], mask=inside)


@triton.jit
def softmax_parts_kernel(x_ptr, y_ptr, parts_ptr, row_stride, N, SLOTS: tl.constexpr, BLOCK_N: tl.constexpr):
    """parts: M×S×2, the largest value and the sum of exp(x - largest) of each of the S parts of a row. They are written where
    there is no y, else read."""
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    columns = part * BLOCK_N + tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + row * row_stride + columns, mask=columns < N, other=float("-inf")).to(tl.float32)
    parts_ptr += row * tl.num_programs(1) * 2
    if y_ptr is None:
        largest = tl.maximum(tl.max(x), LOWEST)
        tl.store(parts_ptr + part * 2, largest)
        tl.store(parts_ptr + part * 2 + 1, tl.sum(tl.exp(x - largest)))
    else:
        slots = tl.arange(0, SLOTS)
        largest_of = tl.load(parts_ptr + slots * 2, mask=slots < tl.num_programs(1), other=LOWEST)
        total_of = tl.load(parts_ptr + slots * 2 + 1, mask=slots < tl.num_programs(1), other=0.0)
        largest = tl.max(largest_of)
        # All sums are scaled to the largest value of all before they are added.
        total = tl.sum(total_of * tl.exp(largest_of - largest))
        tl.store(y_ptr + row * N + columns, tl.exp(x - largest) * (1.0 / total), mask=columns < N)


def by_passes(x, y) -> None:
    one_program_a_row(softmax_passes_kernel, (x,), (y,), pack_size(x.shape[1], x, y))


def rows_of_program(M: int, N: int, device: torch.device) -> dict[str, int]:
    """A warp has 1,024 values of narrow rows, or 512 of a wide one: twice as many where each value is loaded alone. Of the
    narrowest it has 256 (book/results/tried/loads_at_once.json). Where the GPU has room for all rows at a time, each is done
    soonest by a program of its own."""
    block = triton.next_power_of_2(N)
    if at_once(M, N, device):
        return {"ROWS": 1, "BLOCK_N": block, "num_warps": row_warps(M, N, device)}
    if block > WIDEST_KEPT:  # one program has all registers
        return {"ROWS": 1, "BLOCK_N": block, "num_warps": WARPS}
    warps = max(block // (1_024 if N % 8 else 512), 1) if block > 1_024 else 4 if block <= NARROWEST else 1
    return {"ROWS": max(min(1_024 // block, 64), 1), "BLOCK_N": block, "num_warps": warps}


def by_rows(x, y, **chosen: int) -> None:
    M, N = x.shape
    step = pack_size(N, x, y)
    # Many rows of whole vectors are soon read again, and others are not (book/results/tried/loads_at_once.json).
    again = step * x.itemsize == VECTOR_BYTES and not at_once(M, N, x.device)
    if (WIDEST_KEPT if again else WIDEST_OF_PROGRAM) < N:
        return by_passes(x, y)
    tile = rows_of_program(M, N, x.device) | chosen
    grid = (triton.cdiv(M, tile["ROWS"]),)
    launch(softmax_rows_kernel, grid, x, y, x.stride(0), M, N, step, **tile)


def by_parts(x, y) -> None:
    M, N = x.shape
    if N <= WIDEST_CACHED:
        return by_rows(x, y)
    S = triton.cdiv(N, PART["BLOCK_N"])
    parts = torch.empty((M, S, 2), dtype=torch.float32, device=x.device)
    for out in (None, y):
        tile = {"SLOTS": triton.next_power_of_2(S)} | PART
        launch(softmax_parts_kernel, (M, S), x, out, parts, x.stride(0), N, **tile)


def run(by: Callable, *given: torch.Tensor) -> torch.Tensor:
    """The output that by(*matrices, output) writes, for tensors of one shape."""
    out = empty_contiguous(given[-1])
    if out.numel():
        by(*(as_rows(tensor) for tensor in given), out)
    return out


def rung(name: str, idea: str, by: Callable, path: str = __file__) -> Variant:
    return Variant(4, name, partial(run, by), idea, (Path(path), Path(row_tiles.__file__)), needs_interpreter)


FORWARD = (
    rung("passes", "one program a row, which reads it three times", by_passes),
    rung("row", "the row is read once and kept in registers", partial(by_rows, ROWS=1)),
    rung("rows", "narrow rows several at a time", by_rows),
    rung("parts", "widest rows: one program a part, joined by a second kernel", by_parts),
)
