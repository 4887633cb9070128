"""Level 5: the Python side of segment_reduce.cu."""

from pathlib import Path

import torch

from kernels.arguments import as_rows, empty_contiguous
from kernels.cuda.rows import MOST_THREADS, power_of_2_from
from kernels.cuda.template import kernel
from kernels.hardware import WARP
from kernels.machine import multiprocessors
from kernels.ops.segment_reduce.native import SIGNATURE
from kernels.ops.segment_reduce.parts import items_of_part, rows_of_part
from kernels.rung import rung
from kernels.vectors import pack_size

FILE = Path(__file__).with_name("segment_reduce.cu")
WARPS = 4  # of a block, as segment_reduce.cu has it
THREADS_AT_ONCE = 2_048  # of a multiprocessor
MOST_OF_LANE = 64  # rows that a lane adds up, if one segment has them all


def stripes(many: int, packs: int) -> tuple[tuple[int, int], int]:
    """The grid, for so many warps in every stripe of columns and so many packs in a row; and how many lanes lie across."""
    across = min(power_of_2_from(packs), 32)
    return (-(-many // WARPS), -(-packs // across)), across


def warp(x, offsets, mean):
    y = SIGNATURE.empty_outputs(x, offsets)
    if not y.numel():
        return y
    rows, (S, D) = as_rows(x), y.shape
    size = pack_size(D, rows, y)
    grid, across = stripes(S, D // size)
    arguments = (rows, offsets.contiguous(), y, rows.stride(0), S, len(x), D, across, mean)
    kernel(FILE, "segment_warp", x.dtype, size)(grid, (32 * WARPS,), arguments)
    return y


def block_of_segment(T: int, S: int, stripes: int, height: int, device: torch.device) -> int:
    """Threads of a block that has a segment, where of T rows even a segment of all is soon added up; 0 where it is not.
    A warp reads `height` rows at a time."""
    for_each = max(THREADS_AT_ONCE * multiprocessors(device) // (S * stripes), WARP)
    warps = min(power_of_2_from(for_each // WARP + 1) // 2, power_of_2_from(-(-T // height)), MOST_THREADS // WARP)
    return WARP * warps if MOST_OF_LANE * warps * height >= T else 0


def parts(x, offsets, mean):
    """Every warp has as many rows and ends of segments, however long segments are; of few rows, a block has a segment."""
    y = SIGNATURE.empty_outputs(x, offsets)
    if not y.numel():
        return y
    rows, offsets, (S, D), T = as_rows(x), offsets.contiguous(), y.shape, len(x)
    size = pack_size(D, rows, y)
    (_, columns), across = stripes(S, D // size)
    if threads := block_of_segment(T, S, columns, WARP // across, x.device):
        if threads == WARP:
            return warp(x, offsets, mean)
        few = (rows, offsets, y, rows.stride(0), S, T, D, across, mean)
        kernel(FILE, "segment_block", x.dtype, size)((S, columns), (threads,), few)
        return y
    part = items_of_part(T + S, x.device)
    many = -(-(T + S) // part)
    partial = torch.empty((many, 2, D), dtype=torch.float32, device=x.device)
    joined = torch.empty(many, dtype=torch.int64, device=x.device)
    grid, across = stripes(many, D // size)
    arguments = (rows, offsets, y, partial, joined, rows.stride(0), S, T, D, across, mean, part)
    kernel(FILE, "segment_parts", x.dtype, size)(grid, (32 * WARPS,), arguments)
    grid, across = stripes(many, D)
    kernel(FILE, "segment_join", x.dtype)(
        grid, (32 * WARPS,), (partial, joined, offsets, y, many, D, across, mean, part)
    )
    return y


def backward(dy, x, offsets, mean):
    dx = empty_contiguous(x)
    if dx.numel():
        rows, (T, D) = as_rows(dy), x.shape
        size = pack_size(D, rows, dx)
        part = min(rows_of_part(T, x.device), WARP)
        grid, across = stripes(-(-T // part), D // size)
        arguments = (rows, offsets.contiguous(), dx, rows.stride(0), len(rows), T, D, across, mean, part)
        kernel(FILE, "segment_backward", x.dtype, size)(grid, (32 * WARPS,), arguments)
    return dx


FORWARD = (
    rung(5, "warp", warp, "a warp a segment", FILE),
    rung(
        5,
        "parts",
        parts,
        "as many rows and ends for every warp, joined by a second kernel; few rows by a block each",
        FILE,
    ),
)
BACKWARD = (rung(5, "backward-parts", backward, "each row gets its segment's gradient", FILE),)
