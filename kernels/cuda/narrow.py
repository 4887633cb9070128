"""Many narrow rows, one behind the other: which of them blocks copy as vectors, wherever in one a row ends, and what blocks.

In between a warp or less has a row, value by value (layer_norm_narrow.cu, rms_norm_narrow.cu).
"""

import torch

from kernels.cuda.rows import NARROW_THREADS, power_of_2_from
from kernels.hardware import WARP
from kernels.row_parts import few_rows
from kernels.vectors import VECTOR_BYTES

# Columns, by itemsize, of rows that are no whole vectors; vectors of others, which share a warp, and rows a multiprocessor.
NARROW = {4: range(257, 1_537), 2: range(1, 2_049)}
NARROW_VECTORS, NARROW_ROWS = range(9, 33), 64
VALUES = 16  # of a lane, unless a warp has more


def is_narrow(x: torch.Tensor, whole: bool) -> bool:
    """Whether such a kernel is faster than those whose threads times packs are a power of two: for rows that leave a quarter
    of that empty, and all of 2 bytes that are no `whole` vectors (book/results/tried/narrow_rows.json)."""
    (M, N), size = x.shape, VECTOR_BYTES // x.itemsize
    padded = 3 * power_of_2_from(N) > 4 * N
    if whole:
        return padded and N // size in NARROW_VECTORS and not few_rows(M, x.device, NARROW_ROWS)
    return (padded or x.itemsize == 2) and N in NARROW[x.itemsize]


def narrow_block(N: int) -> tuple[int, int, int]:
    """The values of a lane, and a block: the lanes of a row of N, and rows, which are whole vectors together."""
    threads = min(power_of_2_from(-(-N // VALUES)), WARP)
    return -(-N // threads), threads, max(NARROW_THREADS // threads, 8)
