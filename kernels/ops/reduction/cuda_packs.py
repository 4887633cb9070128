"""Level 5: the Python side of reduction_packs.cu and reduction_spread.cu, which load and store 16 bytes at once.

Both have blocks of 256 threads: over rows as many for each row as have all its vectors on their way, over columns as many side
by side as a warp has, each with as many columns as the rows' alignment allows. Where these blocks leave multiprocessors idle,
each is divided into parts, which are joined always in the same order: on one kind of GPU a call gives the same bits again.
"""

from pathlib import Path

import numpy as np
import torch

from kernels.arguments import empty_contiguous
from kernels.cuda.rows import power_of_2_from
from kernels.cuda.template import kernel
from kernels.hardware import WARP
from kernels.machine import multiprocessors
from kernels.ops.reduction.arguments import factor, matrix, outputs, sizes
from kernels.vectors import VECTOR_BYTES, pack_size

FILE, SPREAD = (Path(__file__).with_name(f"reduction_{name}.cu") for name in ("packs", "spread"))
THREADS = 256
LOADS = 4  # 16-byte vectors that a thread has on their way
ROW_LOADS = 8  # of a row that is read: comparing takes longer than adding up, and has more to hide
BLOCKS = 8  # of a multiprocessor, which has room for as many threads


def parts(blocks, most, device):
    """Into how many parts so many blocks are divided."""
    return min(max(BLOCKS * multiprocessors(device) // blocks, 1), most)


def over_rows(M, N, itemsize, loads, device):
    """Grid and block."""
    vectors = -(-N * itemsize // VECTOR_BYTES)
    across = min(power_of_2_from(-(-vectors // loads)), THREADS)
    blocks = -(-M * across // THREADS)
    return (blocks, parts(blocks, -(-vectors // (loads * across)), device)), (across, THREADS // across)


def over_columns(M, N, size, loads, device):
    """Grid and block, for threads with `size` columns each."""
    across = min(power_of_2_from(-(-N // size)), WARP)
    blocks, down = -(-N // (size * across)), THREADS // across
    return (blocks, parts(blocks, -(-M // (loads * down)), device)), (across, down)


def packs(x, kind, dim):
    y, index, some = outputs(x, kind, dim)
    if not some:
        return y, index
    rows = matrix(x, dim)
    (M, N), largest = rows.shape, kind == "max"
    if dim == 0:
        size = pack_size(N, rows)
        loads = max(LOADS, 4 * LOADS // size)  # more of narrow ones
        grid, block = over_columns(M, N, size, loads, x.device)
        launched = kernel(FILE, "reduction_columns", x.dtype, largest, size, loads)
    else:
        grid, block = over_rows(M, N, x.element_size(), ROW_LOADS, x.device)
        launched = kernel(FILE, "reduction_rows", x.dtype, largest, ROW_LOADS)
    known = torch.empty((grid[1], y.numel(), 2), dtype=torch.float32, device=x.device) if grid[1] > 1 else None
    scale = np.float32(factor(kind, M if dim == 0 else N))
    launched(grid, block, (rows, y, index, known, rows.stride(0), M, N, scale))
    if known is not None:
        joined = kernel(FILE, "reduction_joined", x.dtype, largest)
        joined((-(-y.numel() // 32),), (32, 32), (known, y, index, y.numel(), grid[1], scale))
    return y, index


def spread_packs(dy, x, index, kind, dim):
    dx, dy = empty_contiguous(x), dy.contiguous()
    if x.numel():
        M, N = sizes(x, dim)
        if dim == 0:
            size = pack_size(N, dx.view(M, N), dy.view(-1))
            grid, block = over_columns(M, N, size, LOADS, x.device)
            launched = kernel(SPREAD, "reduction_spread_columns", x.dtype, kind == "max", size)
        else:
            grid, block = over_rows(M, N, x.element_size(), LOADS, x.device)
            launched = kernel(SPREAD, "reduction_spread_rows", x.dtype, kind == "max")
        scale = np.float32(factor(kind, M if dim == 0 else N))
        launched(grid, block, (dy, index.contiguous(), dx, M, N, scale))
    return dx
