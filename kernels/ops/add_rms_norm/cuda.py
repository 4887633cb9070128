"""Level 5: the Python side of add_rms_norm.cu, add_rms_norm_split.cu, and of two files for the backward.

Rungs of the forward, plain to best:
    warp      one block a row, which adds and reads it twice.
    kept      the row of h stays in registers; few rows too wide for that are divided among blocks.
Rungs of the backward:
    columns   dx by rows, dweight by kernels in which a thread owns a column.
    queue     16-byte loads, all sums in registers, the next rows on their way.
    cluster   wide rows: as queue, a row shared by the blocks of a cluster.
The last two are for rows of up to 8,192 and 32,768 columns: whole 16-byte vectors, or 64 columns or more that start alike
within one in all matrices; `cluster` needs a GPU of sm_90 or newer. Other rows go to `columns`.
Before all that `cluster` gives few rows to a kernel of their own (add_rms_norm_backward_few.cu).
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.cuda.few import few_gradients
from kernels.cuda.queue import (
    FEWER_REGISTERS,
    WIDEST_OF_BLOCK,
    can_be_peeled,
    cluster_unsupported,
    fits_block,
    fits_cluster,
    queue_launch,
)
from kernels.cuda.rows import (
    COLUMN_SUMS,
    NORM_COLUMNS,
    block_of_rows,
    column_sums,
    norm_columns,
    one_block_a_row,
    threads_of_few,
)
from kernels.cuda.template import kernel
from kernels.hardware import WARP
from kernels.row_parts import at_once, columns_of_part, few_rows, threads_of_part
from kernels.rung import rung
from kernels.vectors import in_vectors, pack_size

FILE, SPLIT, QUEUE, FEW = (
    Path(__file__).with_name(f"add_rms_norm{name}.cu") for name in ("", "_split", "_backward_queue", "_backward_few")
)
MATRICES = 3  # that a backward reads: dy, dh and h
FITS_BLOCK, FITS_CLUSTER = (partial(fits, matrices=MATRICES) for fits in (fits_block, fits_cluster))
TWO_BLOCKS = range(4_097, WIDEST_OF_BLOCK + 1)  # columns
WIDE = 8_192  # columns beyond which a multiprocessor has registers for one row or two
WIDEST_KEPT, WIDEST_ODD = 32_768, 16_384  # columns that registers keep: fewer where values are loaded one by one
VALUES = 16  # of a row that a thread holds where not all rows are there at a time, so that several are


def warp(x, residual, weight, eps):
    y, h = empty_contiguous(x), empty_contiguous(x)
    launched = kernel(FILE, "add_rms_norm_warp", x.dtype)
    one_block_a_row(launched, (x, residual), (as_columns(weight), y, h), np.float32(eps))
    return y, h


def kept_threads(M: int, N: int, size: int, device: torch.device) -> int:
    """Threads of a row in packs of `size`: as many as help where all rows are there at once, or values of a wide row are loaded
    one by one; else VALUES a thread, or twice as many of a wide row."""
    if at_once(M, N, device) or (size == 1 and N > WIDE):
        return threads_of_few(N, size)
    return WARP * -(-N // (WARP * VALUES * (2 if N > WIDE else 1)))


def kept(x, residual, weight, eps):
    if not x.numel():
        return warp(x, residual, weight, eps)
    matrix, other, vector = as_rows(x), as_rows(residual), as_columns(weight)
    (M, N), size = matrix.shape, pack_size(x.shape[-1], matrix, other, vector)
    y, h = empty_contiguous(x), empty_contiguous(x)
    if (WIDEST_ODD if size == 1 else WIDEST_KEPT) < N:
        if not few_rows(M, x.device):
            return warp(x, residual, weight, eps)
        split(matrix, other, vector, y, h, size, eps)
        return y, h
    threads, height = block_of_rows(kept_threads(M, N, size, x.device), -(-N // size))
    arguments = (matrix, other, vector, y, h, matrix.stride(0), other.stride(0), M, N, np.float32(eps))
    launched = kernel(FILE, "add_rms_norm_kept", x.dtype, size, -(-N // (size * threads)), threads, height)
    launched((-(-M // height),), (threads, height), arguments)
    return y, h


def split(x, residual, weight, y, h, size, eps) -> None:
    """y and h of matrices with at least one element, in packs of `size`."""
    M, N = x.shape
    columns = columns_of_part(M, N, x.device)
    parts = torch.empty(M * -(-N // columns), dtype=torch.float32, device=x.device)
    grid, block, strides = parts.shape, (threads_of_part(columns),), (x.stride(0), residual.stride(0))
    kernel(SPLIT, "add_rms_norm_parts", x.dtype, size)(grid, block, (x, residual, h, parts, *strides, N))
    arguments = (x, residual, weight, y, h, parts, *strides, N, np.float32(eps))
    kernel(SPLIT, "add_rms_norm_split", x.dtype, size)(grid, block, arguments)


def columns(dy, dh, h, weight, eps):
    dx, dresidual, dweight = map(empty_contiguous, (h, h, weight))
    if not h.numel():
        return dx, dresidual, dweight.zero_()
    dy, dh, h = as_rows(dy), as_rows(dh), as_rows(h)
    statistics = h.new_empty((len(h), 2), dtype=torch.float32)
    launched = kernel(FILE, "add_rms_norm_backward_rows", h.dtype)
    one_block_a_row(launched, (dy, dh, h), (as_columns(weight), dx, dresidual, statistics), np.float32(eps))
    norm_columns(kernel(FILE, "add_rms_norm_backward_columns", h.dtype), dy, h, statistics, dweight)
    return dx, dresidual, dweight


def in_registers(dy, dh, h, weight, eps, fits: Callable[..., bool] = FITS_BLOCK):
    """The gradients by add_rms_norm_backward_queue.cu; None where the rows do not fit a block, or a cluster."""
    dys, dhs, rows, columns = as_rows(dy), as_rows(dh), as_rows(h), as_columns(weight)
    M, N = rows.shape
    peeled = not in_vectors(N, dys, dhs, rows, columns)
    if not fits(h, peeled=peeled) or (peeled and not can_be_peeled(dys, dhs, rows)):
        return None
    dx, dresidual, dweight = map(empty_contiguous, (h, h, weight))
    # Registers for two blocks of a multiprocessor (book/results/tried/peeled_rows.json): a thread has one sum of each column.
    fewer = peeled and h.itemsize == 2 and N in TWO_BLOCKS and fits(h, peeled=peeled, registers=FEWER_REGISTERS)
    registers = FEWER_REGISTERS if fewer else None
    launched, G, (grid, block, shared_bytes) = queue_launch(
        QUEUE, QUEUE.stem, rows, MATRICES, peeled, registers=registers
    )
    sums = torch.empty((G, 1, N), dtype=torch.float32, device=h.device)
    strides = dys.stride(0), dhs.stride(0), rows.stride(0)
    arguments = (dys, dhs, rows, columns, dx, dresidual, sums, *strides, M, N, np.float32(eps))
    launched(grid, block, arguments, shared_mem=shared_bytes)
    column_sums(sums, dweight)
    return dx, dresidual, dweight


def queue(dy, dh, h, weight, eps):
    """Deterministic on one kind of GPU: which rows a block adds up, and in which order, is fixed."""
    return in_registers(dy, dh, h, weight, eps) or columns(dy, dh, h, weight, eps)


def cluster(dy, dh, h, weight, eps):
    """Deterministic on one kind of GPU, as `queue`."""
    matrices = as_rows(dy), as_rows(dh), as_rows(h), as_columns(weight), eps
    found = few_gradients(FEW, matrices[:3], matrices[3], eps, sums=matrices[3:4], like_x=2)
    dx, dresidual, dweight = found or in_registers(*matrices, FITS_CLUSTER) or queue(*matrices)
    return dx.view(h.shape), dresidual.view(h.shape), dweight


FILES = FILE, NORM_COLUMNS, COLUMN_SUMS
FORWARD = (
    rung(5, "warp", warp, "one block a row, the sum by shuffles", *FILES),
    rung(5, "kept", kept, "loads as wide as rows allow, the row of h kept in registers", *FILES, SPLIT),
)
QUEUED = (*FILES, QUEUE)
BACKWARD = (
    rung(5, "columns", columns, "dx by rows, dweight by columns", *FILES),
    rung(5, "queue", queue, "rows read once by 16-byte loads, the next rows on their way", *QUEUED),
    rung(
        5,
        "cluster",
        cluster,
        "wide rows: shared by the blocks of a cluster",
        *QUEUED,
        FEW,
        unsupported=cluster_unsupported,
    ),
)
