"""Level 4: sums of segments in Triton, forward and backward.

segment          one program a segment and a stripe of columns.
parts            one program as many rows as every other, whatever segments they are of; a second kernel adds up what parts have
                 of a segment that goes over their ends.
backward-parts   the rows of a part get the gradients of their segments.
"""

import torch
import triton
import triton.language as tl

from kernels.arguments import as_rows, empty_contiguous
from kernels.ops.segment_reduce.native import SIGNATURE
from kernels.rung import rung
from kernels.triton.launch import ASSERTING, launch

PART = 128  # rows of a program, where rows are divided evenly
TILE = 4_096  # values that are read at once


@triton.jit
def ends(offsets_ptr, s, S, T):
    """Where segment s begins and ends."""
    begin, end = tl.load(offsets_ptr + s), tl.load(offsets_ptr + s + 1)
    right = (begin >= 0) & (begin <= end) & (end <= T) & ((s > 0) | (begin == 0)) & ((s + 1 < S) | (end == T))
    tl.device_assert(right, "offsets: expected 0, numbers that do not fall, and the number of rows of x")
    return begin, end


@triton.jit
def segment_of(offsets_ptr, S, t):
    """The segment that row t is in: the last that begins at t or before it."""
    low, high = tl.zeros((), tl.int64), tl.zeros((), tl.int64) + S
    while high - low > 1:
        middle = (low + high) // 2
        below = tl.load(offsets_ptr + middle) <= t
        low, high = tl.where(below, middle, low), tl.where(below, high, middle)
    return low


@triton.jit
def sum_of_rows(x_ptr, stride, begin, end, columns, D, ROWS: tl.constexpr, BLOCK_D: tl.constexpr):
    sums = tl.zeros((ROWS, BLOCK_D), tl.float32)
    start = begin
    while start < end:
        rows = start + tl.arange(0, ROWS)[:, None]
        inside = (rows < end) & (columns < D)[None, :]
        sums += tl.load(x_ptr + rows * stride + columns[None, :], mask=inside, other=0.0).to(tl.float32)
        start += ROWS
    return tl.sum(sums, 0)


@triton.jit
def segment_kernel(
    x_ptr, offsets_ptr, y_ptr, x_stride, S, T, D, MEAN: tl.constexpr, ROWS: tl.constexpr, BLOCK_D: tl.constexpr
):
    s, columns = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    begin, end = ends(offsets_ptr, s, S, T)
    sums = sum_of_rows(x_ptr, x_stride, begin, end, columns, D, ROWS, BLOCK_D)
    if MEAN:
        sums = tl.div_rn(sums, tl.maximum(end - begin, 1).to(tl.float32))
    tl.store(y_ptr + s * D + columns, sums, mask=columns < D)


@triton.jit
def segment_parts_kernel(
    x_ptr, offsets_ptr, y_ptr, partial_ptr, x_stride, S, T, D,
    MEAN: tl.constexpr, PART: tl.constexpr, ROWS: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Segments within the part are written. Of one that began before, and of one that begins here and goes on behind the part,
    the sums so far are kept: partial[part][0] and partial[part][1]."""
    part, columns = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    first, last = part * PART, tl.minimum((part + 1) * PART, T)
    t, s = first, segment_of(offsets_ptr, S, first)
    while t < last:
        begin, end = ends(offsets_ptr, s, S, T)
        here = tl.minimum(end, last)
        if begin < end:
            sums = sum_of_rows(x_ptr, x_stride, t, here, columns, D, ROWS, BLOCK_D)
            if (begin >= first) & (end <= last):
                if MEAN:
                    sums = tl.div_rn(sums, (end - begin).to(tl.float32))
                tl.store(y_ptr + s * D + columns, sums, mask=columns < D)
            else:
                slot = part * 2 + (begin >= first).to(tl.int64)
                tl.store(partial_ptr + slot * D + columns, sums, mask=columns < D)
        t = tl.maximum(t, here)
        if begin < end:
            s += 1
        else:  # there may be many without rows
            s = segment_of(offsets_ptr, S, t)


@triton.jit
def segment_join_kernel(
    partial_ptr, offsets_ptr, y_ptr, S, T, D,
    MEAN: tl.constexpr, PART: tl.constexpr, ROWS: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The segments without rows, and those in several parts: the first has them at its end, the others at their beginning."""
    s, columns = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    begin, end = ends(offsets_ptr, s, S, T)
    of_first, of_last = begin // PART, (end - 1) // PART
    if (begin < end) & (of_first == of_last):
        return
    sums = sum_of_rows(partial_ptr, 2 * D, of_first + 1, of_last + 1, columns, D, ROWS, BLOCK_D)
    if begin < end:
        sums += tl.load(partial_ptr + (of_first * 2 + 1) * D + columns, mask=columns < D, other=0.0)
    if MEAN:
        sums = tl.div_rn(sums, tl.maximum(end - begin, 1).to(tl.float32))
    tl.store(y_ptr + s * D + columns, sums, mask=columns < D)


@triton.jit(do_not_specialize=["S"])  # of a known S = 1 Triton 3.6 fails to compile the search
def segment_backward_kernel(
    dy_ptr, offsets_ptr, dx_ptr, dy_stride, S, T, D,
    MEAN: tl.constexpr, PART: tl.constexpr, ROWS: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    part, columns = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    first, last = part * PART, tl.minimum((part + 1) * PART, T)
    least = segment_of(offsets_ptr, S, first)
    segments = segment_of(offsets_ptr, S, last - 1) + 1 - least  # of the part: each row looks for its own among them
    for start in range(0, PART, ROWS):
        t = first + start + tl.arange(0, ROWS)
        low = tl.zeros((ROWS,), tl.int64) + least
        high, span = low + segments, segments
        while span > 1:
            middle = (low + high) // 2
            below = tl.load(offsets_ptr + middle) <= t
            low, high = tl.where(below, middle, low), tl.where(below, high, tl.maximum(middle, low + 1))
            span -= span // 2
        begin, end = tl.load(offsets_ptr + low), tl.load(offsets_ptr + low + 1)
        tl.device_assert(
            (t >= last) | ((begin <= t) & (t < end)), "offsets: expected numbers that do not fall, up to rows"
        )
        inside = (t < last)[:, None] & (columns < D)[None, :]
        dy = tl.load(dy_ptr + low[:, None] * dy_stride + columns[None, :], mask=inside, other=0.0).to(tl.float32)
        if MEAN:
            dy = tl.div_rn(dy, tl.broadcast_to(tl.maximum(end - begin, 1).to(tl.float32)[:, None], (ROWS, BLOCK_D)))
        tl.store(dx_ptr + t[:, None] * D + columns[None, :], dy, mask=inside)


def tile(D: int) -> dict[str, int]:
    block = min(triton.next_power_of_2(D), 1_024)
    return {"ROWS": min(TILE // block, 32), "BLOCK_D": block, "num_warps": 4}


def segment(x, offsets, mean):
    y = SIGNATURE.empty_outputs(x, offsets)
    if y.numel():
        rows, (S, D), options = as_rows(x), y.shape, tile(x.shape[1]) | {"MEAN": mean} | ASSERTING
        grid = S, triton.cdiv(D, options["BLOCK_D"])
        launch(segment_kernel, grid, rows, offsets.contiguous(), y, rows.stride(0), S, len(x), D, **options)
    return y


def parts(x, offsets, mean):
    """Every program has as many rows, however long segments are."""
    y = SIGNATURE.empty_outputs(x, offsets)
    if not y.numel():
        return y
    rows, offsets, (S, D), T = as_rows(x), offsets.contiguous(), y.shape, len(x)
    options = tile(D) | {"MEAN": mean, "PART": PART} | ASSERTING
    many, stripes = triton.cdiv(T, PART), triton.cdiv(D, options["BLOCK_D"])
    partial = torch.empty((many, 2, D), dtype=torch.float32, device=x.device)
    if T:
        tensors = rows, offsets, y, partial
        launch(segment_parts_kernel, (many, stripes), *tensors, rows.stride(0), S, T, D, **options)
    launch(segment_join_kernel, (S, stripes), partial, offsets, y, S, T, D, **options)
    return y


def backward(dy, x, offsets, mean):
    dx = empty_contiguous(x)
    if dx.numel():
        rows, (T, D), options = as_rows(dy), x.shape, tile(x.shape[1]) | {"MEAN": mean, "PART": PART} | ASSERTING
        grid = triton.cdiv(T, PART), triton.cdiv(D, options["BLOCK_D"])
        tensors = rows, offsets.contiguous(), dx
        launch(segment_backward_kernel, grid, *tensors, rows.stride(0), len(rows), T, D, **options)
    return dx


FORWARD = (
    rung(4, "segment", segment, "a program a segment"),
    rung(4, "parts", parts, "as many rows for every program, joined by a second kernel"),
)
BACKWARD = (rung(4, "backward-parts", backward, "each row gets its segment's gradient"),)
