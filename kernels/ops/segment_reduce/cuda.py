"""Level 5: the Python side of segment_reduce.cu."""

from pathlib import Path

import torch

from kernels.arguments import as_rows, empty_contiguous
from kernels.cuda.rows import pack_size, power_of_2_from
from kernels.cuda.template import kernel
from kernels.hardware import WARP
from kernels.ops.segment_reduce.native import SIGNATURE
from kernels.ops.segment_reduce.parts import items_of_part, rows_of_part
from kernels.rung import rung

FILE = Path(__file__).with_name("segment_reduce.cu")
WARPS = 4  # of a block, as segment_reduce.cu has it


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


def parts(x, offsets, mean):
    """Every warp has as many rows and ends of segments, however long segments are."""
    y = SIGNATURE.empty_outputs(x, offsets)
    if not y.numel():
        return y
    rows, offsets, (S, D), T = as_rows(x), offsets.contiguous(), y.shape, len(x)
    part = items_of_part(T + S, x.device)
    many = -(-(T + S) // part)
    partial = torch.empty((many, 2, D), dtype=torch.float32, device=x.device)
    joined = torch.empty(many, dtype=torch.int64, device=x.device)
    size = pack_size(D, rows, y)
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
    rung(5, "parts", parts, "as many rows and ends for every warp, joined by a second kernel", FILE),
)
BACKWARD = (rung(5, "backward-parts", backward, "each row gets its segment's gradient", FILE),)
