"""Level 5: the Python side of scan.cu."""

from functools import partial
from pathlib import Path

import torch

from kernels.arguments import as_rows, empty_contiguous
from kernels.cuda.rows import pack_threads, scalar_threads
from kernels.cuda.template import kernel
from kernels.hardware import WARP
from kernels.machine import multiprocessors
from kernels.row_parts import at_once
from kernels.rung import rung
from kernels.vectors import pack_size

FILE = Path(__file__).with_name("scan.cu")
LONG = 8_192  # columns, from which a few rows are divided
MOST_PARTS = 1_024
NARROW, ROWS = 8, 8  # packs of a lane, up to which a warp has a whole row, and such rows of a block


def scanned(in_parts: bool, reversed: bool, x: torch.Tensor) -> torch.Tensor:
    y = empty_contiguous(x)
    if not x.numel():
        return y
    rows = as_rows(x)
    M, N = rows.shape
    size = pack_size(N, rows, y.view(M, N))
    soon = at_once(M, N, x.device)
    if in_parts and not soon and NARROW * WARP * size >= N:
        packs = -(-N // (WARP * size))
        by_warps = kernel(FILE, "scan_narrow", x.dtype, size, reversed, packs)
        by_warps((-(-M // ROWS),), (WARP, ROWS), (rows, y, rows.stride(0), M, N))
        return y
    threads = pack_threads(N, size) if soon and N <= LONG else scalar_threads(N // size)
    turn, parts = threads * size, 1
    if in_parts and N > LONG and (few := multiprocessors(x.device)) >= 2 * M:
        parts = min(2 * few // M, MOST_PARTS)
    width = turn * -(-N // (turn * parts))  # of a part: whole turns of the block
    parts, sums = -(-N // width), None
    if parts > 1:
        sums = torch.empty((M, parts - 1), dtype=torch.float64, device=x.device)
        sum_parts = kernel(FILE, "scan_sums", x.dtype, size, reversed)
        sum_parts((M, parts - 1), (threads,), (rows, sums, rows.stride(0), N, width))
    by_rows = kernel(FILE, "scan_rows", x.dtype, size, reversed)
    by_rows((M, parts), (threads,), (rows, y, sums, rows.stride(0), N, width))
    return y


FORWARD = (
    rung(5, "block", partial(scanned, False, False), "one block a row, in one pass", FILE),
    rung(
        5,
        "parts",
        partial(scanned, True, False),
        "a few long rows by many blocks, many narrow ones by a warp each",
        FILE,
    ),
)
BACKWARD = (rung(5, "reversed", partial(scanned, True, True), "the same from the right", FILE),)
