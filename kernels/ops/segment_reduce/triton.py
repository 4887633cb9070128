"""Level 4: sums of segments in Triton, forward and backward.

segment          one program a segment and a stripe of columns.
parts            one program as many items as every other, which are rows and ends of segments: many segments without rows are
                 divided, too; a second kernel adds up what parts have of a segment that goes over their ends.
backward-parts   the rows of a part look up their segments at once, and get their gradients.
"""

import torch
import triton
import triton.language as tl

from kernels.arguments import as_rows, empty_contiguous
from kernels.machine import multiprocessors
from kernels.ops.segment_reduce.native import SIGNATURE
from kernels.ops.segment_reduce.parts import items_of_part, rows_of_part
from kernels.rung import rung
from kernels.triton.launch import ASSERTING, launch

TILE = 4_096  # values that are read at once
FEW_ROWS, WIDE_TILE = 1_024, 8_192  # rows whose segments a program each adds up, where these are few, too; and its tile


@triton.jit
def ends(offsets_ptr, s, S, T):
    """Where segment s begins and ends."""
    begin, end = tl.load(offsets_ptr + s), tl.load(offsets_ptr + s + 1)
    right = (begin >= 0) & (begin <= end) & (end <= T) & ((s > 0) | (begin == 0)) & ((s + 1 < S) | (end == T))
    tl.device_assert(right, "offsets: expected 0, numbers that do not fall, and the number of rows of x")
    return begin, end


@triton.jit
def last_up_to(offsets_ptr, limit, at, LEAN: tl.constexpr, FAN: tl.constexpr):
    """The last i below the limit with offsets[i] + LEAN * i <= at, for each of a vector `at`. A step divides what is left by
    FAN, and its loads are on their way at once."""
    low, span = tl.zeros_like(at), tl.zeros((), tl.int64) + limit
    while span > 1:
        apart = (span + FAN - 1) // FAN
        i = low[:, None] + apart * (1 + tl.arange(0, FAN))[None, :]
        offset = tl.load(offsets_ptr + i, mask=i < limit, other=0)
        low += apart * tl.sum(((i < limit) & (offset + LEAN * i <= at[:, None])).to(tl.int64), 1)
        span = apart
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


@triton.jit(do_not_specialize=["S"])  # of a known S = 1 Triton 3.6 fails to compile the search
def segment_parts_kernel(
    x_ptr, offsets_ptr, y_ptr, partial_ptr, joined_ptr, x_stride, S, T, D,
    MEAN: tl.constexpr, PART: tl.constexpr, ROWS: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Rows and ends of segments in one sequence: row t of segment s is item t + s, its end is item offsets[s + 1] + s. The part
    that has a segment's end writes it, and if it began in another part, says so in joined[part], which is -1 otherwise. Then
    partial[part][0] is kept of the segment that ends here; partial[part][1] always, of the one that goes on behind it."""
    part, columns = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    first, stop = part * PART, tl.minimum((part + 1) * PART, T + S)
    which = tl.arange(0, 2)
    found = last_up_to(offsets_ptr, S + 1, tl.where(which == 0, first, stop), 1, 16)
    s, last = tl.sum(tl.where(which == 0, found, 0)), tl.sum(tl.where(which == 1, found, 0))
    t = first - s
    if tl.program_id(1) == 0:
        tl.store(joined_ptr + part, tl.where((s < last) & (tl.load(offsets_ptr + s) < t), s, -1))
    while s <= tl.minimum(last, S - 1):
        begin, end = ends(offsets_ptr, s, S, T)
        here = tl.where(s < last, end, stop - last)
        sums = sum_of_rows(x_ptr, x_stride, t, here, columns, D, ROWS, BLOCK_D)
        if (s < last) & (begin >= t):
            if MEAN:
                sums = tl.div_rn(sums, tl.maximum(end - begin, 1).to(tl.float32))
            tl.store(y_ptr + s * D + columns, sums, mask=columns < D)
        else:
            slot = part * 2 + (s == last).to(tl.int64)
            tl.store(partial_ptr + slot * D + columns, sums, mask=columns < D)
        t = here
        s += 1


@triton.jit
def segment_join_kernel(
    partial_ptr, joined_ptr, offsets_ptr, y_ptr, D,
    MEAN: tl.constexpr, PART: tl.constexpr, ROWS: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The segments that end in another part than they began in."""
    part, columns = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    s = tl.load(joined_ptr + part)
    if s < 0:
        return
    begin, end = tl.load(offsets_ptr + s), tl.load(offsets_ptr + s + 1)
    sums = sum_of_rows(partial_ptr + D, 2 * D, (begin + s) // PART, part, columns, D, ROWS, BLOCK_D)
    sums += tl.load(partial_ptr + part * 2 * D + columns, mask=columns < D, other=0.0)
    if MEAN:
        sums = tl.div_rn(sums, tl.maximum(end - begin, 1).to(tl.float32))
    tl.store(y_ptr + s * D + columns, sums, mask=columns < D)


@triton.jit(do_not_specialize=["S"])  # as above
def segment_backward_kernel(
    dy_ptr, offsets_ptr, dx_ptr, dy_stride, S, T, D, MEAN: tl.constexpr, ROWS: tl.constexpr, BLOCK_D: tl.constexpr
):
    """Each of a program's rows looks up its segment, whose gradient it then gets."""
    t = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    s = last_up_to(offsets_ptr, S, t, 0, 8)
    inside = (t < T)[:, None] & (columns < D)[None, :]
    dy = tl.load(dy_ptr + s[:, None] * dy_stride + columns[None, :], mask=inside, other=0.0).to(tl.float32)
    begin, end = tl.load(offsets_ptr + s), tl.load(offsets_ptr + s + 1)
    right = (t >= T) | ((begin <= t) & (t < end) & (end <= T))
    tl.device_assert(right, "offsets: expected numbers that do not fall, up to the rows of x")
    if MEAN:
        dy = tl.div_rn(dy, tl.broadcast_to(tl.maximum(end - begin, 1).to(tl.float32)[:, None], (ROWS, BLOCK_D)))
    tl.store(dx_ptr + t[:, None] * D + columns[None, :], dy, mask=inside)


def tile(D: int, rows: int = 32, values: int = TILE, warps: int = 4) -> dict[str, int]:
    """A tile of at most so many rows, a power of two, and so many values, and its warps."""
    block = min(triton.next_power_of_2(D), 1_024)
    rows = min(values // block, rows)
    return {"ROWS": rows, "BLOCK_D": block, "num_warps": min(max(rows * block // 256, 1), warps)}


def segment(x, offsets, mean):
    y = SIGNATURE.empty_outputs(x, offsets)
    if y.numel():
        rows, (S, D), options = as_rows(x), y.shape, tile(x.shape[1]) | {"MEAN": mean} | ASSERTING
        grid = S, triton.cdiv(D, options["BLOCK_D"])
        launch(segment_kernel, grid, rows, offsets.contiguous(), y, rows.stride(0), S, len(x), D, **options)
    return y


def parts(x, offsets, mean):
    """Every program has as many rows and ends of segments, however long segments are. Of few rows in few segments, a program
    has a segment: even one of all rows is soon added up."""
    y = SIGNATURE.empty_outputs(x, offsets)
    if not y.numel():
        return y
    rows, offsets, (S, D), T = as_rows(x), offsets.contiguous(), y.shape, len(x)
    if T <= FEW_ROWS and multiprocessors(x.device) >= S:
        options = tile(D, triton.next_power_of_2(max(T, 1)), WIDE_TILE, 16) | {"MEAN": mean} | ASSERTING
        grid = S, triton.cdiv(D, options["BLOCK_D"])
        launch(segment_kernel, grid, rows, offsets, y, rows.stride(0), S, T, D, **options)
        return y
    part = items_of_part(T + S, x.device)
    many, constants = triton.cdiv(T + S, part), {"MEAN": mean, "PART": part} | ASSERTING
    partial = torch.empty((many, 2, D), dtype=torch.float32, device=x.device)
    joined = torch.empty(many, dtype=torch.int64, device=x.device)
    options = tile(D, min(triton.next_power_of_2(T // S + 1), 32))  # a tile as high as most segments
    grid, tensors = (many, triton.cdiv(D, options["BLOCK_D"])), (rows, offsets, y, partial, joined)
    launch(segment_parts_kernel, grid, *tensors, rows.stride(0), S, T, D, **options, **constants)
    launch(segment_join_kernel, grid, partial, joined, offsets, y, D, **tile(D), **constants)
    return y


def backward(dy, x, offsets, mean):
    dx = empty_contiguous(x)
    if dx.numel():
        rows, (T, D), options = as_rows(dy), x.shape, tile(x.shape[1], rows_of_part(len(x), x.device)) | ASSERTING
        grid = triton.cdiv(T, options["ROWS"]), triton.cdiv(D, options["BLOCK_D"])
        tensors = rows, offsets.contiguous(), dx
        launch(segment_backward_kernel, grid, *tensors, rows.stride(0), len(rows), T, D, MEAN=mean, **options)
    return dx


FORWARD = (
    rung(4, "segment", segment, "a program a segment"),
    rung(4, "parts", parts, "as many rows and ends for every program, joined by a second kernel"),
)
BACKWARD = (rung(4, "backward-parts", backward, "each row gets its segment's gradient"),)
