"""Level 5: the Python side of scan.cu."""

from functools import partial
from pathlib import Path

import torch

from kernels.arguments import as_rows, empty_contiguous
from kernels.cuda.rows import pack_size, scalar_threads
from kernels.cuda.template import kernel
from kernels.machine import multiprocessors
from kernels.rung import rung

FILE = Path(__file__).with_name("scan.cu")
LONG = 8_192  # columns, from which a few rows are divided
MOST_PARTS = 1_024


def scanned(in_parts: bool, reversed: bool, x: torch.Tensor) -> torch.Tensor:
    y = empty_contiguous(x)
    if not x.numel():
        return y
    rows = as_rows(x)
    M, N = rows.shape
    size = pack_size(N, rows, y.view(M, N))
    threads = scalar_threads(N // size)
    at_once, parts = threads * size, 1
    if in_parts and N > LONG and (few := multiprocessors(x.device)) >= 2 * M:
        parts = min(2 * few // M, MOST_PARTS)
    width = at_once * -(-N // (at_once * parts))  # of a part: whole turns of the block
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
    rung(5, "parts", partial(scanned, True, False), "a few long rows by many blocks", FILE),
)
BACKWARD = (rung(5, "reversed", partial(scanned, True, True), "the same from the right", FILE),)
