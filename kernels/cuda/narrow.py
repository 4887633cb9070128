"""Many narrow rows, one behind the other: which of them blocks copy as vectors, wherever in one a row ends, and what blocks.

In between a warp or less has a row, value by value (layer_norm_narrow.cu, rms_norm_narrow.cu). That each warp copies its own
rows and waits for no other is faster for some widths and slower for others (book/results/tried/narrow_by_warps.json).
"""

import torch

from kernels.cuda.rows import NARROW_THREADS, VALUES_OF_FEW, power_of_2_from
from kernels.hardware import WARP
from kernels.machine import multiprocessors
from kernels.row_parts import few_rows
from kernels.vectors import VECTOR_BYTES

NARROWEST_PADDED, WIDEST = 257, 2_048  # columns of rows that are no whole vectors
# Vectors of others, which share a warp, and rows a multiprocessor.
NARROW_VECTORS, NARROW_ROWS = range(9, 33), 64
VALUES = 16  # of a lane, unless a warp has more


def is_narrow(x: torch.Tensor, whole: bool) -> bool:
    """Whether such a kernel is faster than those whose threads times packs are a power of two: for rows that leave a quarter
    of that empty, and of those that are no `whole` vectors all of 2 bytes and all narrow ones
    (book/results/tried/narrow_rows.json and peeled_rows.json)."""
    (M, N), size = x.shape, VECTOR_BYTES // x.itemsize
    padded = 3 * power_of_2_from(N) > 4 * N
    if whole:
        return padded and N // size in NARROW_VECTORS and not few_rows(M, x.device, NARROW_ROWS)
    return N < NARROWEST_PADDED or ((padded or x.itemsize == 2) and N <= WIDEST)


def narrow_block(x: torch.Tensor) -> tuple[int, int, int]:
    """The values of a lane, and a block: the lanes of a row of the matrix x, and rows, which are whole vectors together."""
    M, N = x.shape
    threads = min(power_of_2_from(-(-N // VALUES)), WARP)
    if M * threads < multiprocessors(x.device) * NARROW_THREADS:  # fewer blocks than multiprocessors
        threads = min(power_of_2_from(-(-N // VALUES_OF_FEW)), WARP)
    return -(-N // threads), threads, max(NARROW_THREADS // threads, 8)
