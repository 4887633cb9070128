"""Level 5: the Python side of rms_norm.cu, rms_norm_split.cu and rms_norm_backward_queue.cu.

Rungs of the forward, plain to best:
    reread    one block a row, which reads it twice, by loads as wide as the rows' alignment allows.
    kept      the row stays in registers; few rows too wide for that are divided among blocks.
Rungs of the backward:
    columns   dx by rows, dweight by kernels in which a thread owns a column.
    queue     16-byte loads, all sums in registers, the next rows on their way.
    cluster   wide rows: as queue, a row shared by the blocks of a cluster.
The last two need rows of whole 16-byte vectors, up to 8,192 and 32,768 columns, and the last a GPU of sm_90 or newer; other
rows go to `columns`, and rows too wide for `kept` to `reread`.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.cuda.includes import DEVICE, with_includes
from kernels.cuda.queue import blocks_of_row, cluster_unsupported, fits_block, fits_cluster, queue_launch
from kernels.cuda.rows import (
    COLUMN_SUMS,
    NORM_COLUMNS,
    column_sums,
    in_vectors,
    norm_columns,
    pack_size,
    pack_threads,
    threads_of_few,
    threads_of_row,
)
from kernels.cuda.template import kernel
from kernels.hardware import WARP
from kernels.operation import Variant
from kernels.row_parts import at_once, columns_of_part, few_rows, threads_of_part
from kernels.unsupported import Reason, needs_compiler

FILE, SPLIT, QUEUE = (Path(__file__).with_name(f"rms_norm{name}.cu") for name in ("", "_split", "_backward_queue"))
WIDEST_KEPT = 8_192  # columns up to which a multiprocessor's registers hold several rows at once


def reread(x, weight, eps):
    y = empty_contiguous(x)
    if y.numel():
        rows, weight = as_rows(x), as_columns(weight)
        M, N = rows.shape
        size = pack_size(N, rows, weight, y)
        arguments = (rows, weight, y, rows.stride(0), N, np.float32(eps))
        kernel(FILE, "rms_norm_reread", x.dtype, size)((M,), (pack_threads(N, size),), arguments)
    return y


def kept(x, weight, eps):
    N = x.shape[-1]
    if not x.numel() or N > WIDEST_KEPT:
        return (split if x.numel() and few_rows(x.numel() // N, x.device) else reread)(x, weight, eps)
    y, rows, weight = empty_contiguous(x), as_rows(x), as_columns(weight)
    M, size = rows.shape[0], pack_size(N, rows, weight, y)
    few = at_once(M, N, x.device)
    threads = threads_of_few(N, size) if few else threads_of_row(N)
    height = 2 if threads == WARP else 1  # a multiprocessor holds fewer blocks of one warp than it holds warps
    parameters = size, -(-N // (size * threads)), threads, height, few
    arguments = (rows, weight, y, rows.stride(0), M, N, np.float32(eps))
    kernel(FILE, "rms_norm_kept", x.dtype, *parameters)((-(-M // height),), (threads, height), arguments)
    return y


def split(x, weight, eps):
    """y of an x with at least one element."""
    y, rows, weight = empty_contiguous(x), as_rows(x), as_columns(weight)
    M, N = rows.shape
    size, columns = pack_size(N, rows, weight, y), columns_of_part(M, N, x.device)
    grid, block = (M, -(-N // columns)), (threads_of_part(columns),)
    parts = torch.empty(grid, dtype=torch.float32, device=x.device)
    kernel(SPLIT, "rms_norm_parts", x.dtype, size)(grid, block, (rows, parts, rows.stride(0), N))
    arguments = (rows, weight, y, parts, rows.stride(0), N, np.float32(eps))
    kernel(SPLIT, "rms_norm_split", x.dtype, size)(grid, block, arguments)
    return y


def columns(dy, x, weight, eps):
    """Deterministic on one kind of GPU: which rows a block adds up, and in which order, is fixed."""
    dx, dweight = empty_contiguous(x), None if weight is None else empty_contiguous(weight)
    if not x.numel():
        return dx, None if dweight is None else dweight.zero_()
    dy, x, weight = as_rows(dy), as_rows(x), as_columns(weight)
    M, N = x.shape
    size, strides = pack_size(N, dy, x, weight, dx), (dy.stride(0), x.stride(0))
    statistics = x.new_empty((M, 2), dtype=torch.float32)
    arguments = (dy, x, weight, dx, statistics, *strides, N, np.float32(eps))
    kernel(FILE, "rms_norm_backward_rows", x.dtype, size)((M,), (pack_threads(N, size),), arguments)
    if dweight is not None:
        norm_columns(kernel(FILE, "rms_norm_backward_columns", x.dtype), dy, x, statistics, dweight)
    return dx, dweight


def in_registers(dy, x, weight, eps, cluster: int):
    """The gradients by rms_norm_backward_queue.cu, with `cluster` blocks to a row; None where the rows do not fit."""
    dys, rows, columns = as_rows(dy), as_rows(x), as_columns(weight)
    if not in_vectors(x.shape[-1], dys, rows, columns):
        return None
    dx, dweight = empty_contiguous(x), None if weight is None else empty_contiguous(weight)
    launched, G, (grid, block, shared_bytes) = queue_launch(QUEUE, "rms_norm_backward_queue", rows, cluster)
    M, N = rows.shape
    partial = torch.empty((G, 1, N), dtype=torch.float32, device=x.device)
    arguments = (dys, rows, columns, dx, partial, dys.stride(0), rows.stride(0), M, N, np.float32(eps))
    launched(grid, block, arguments, shared_mem=shared_bytes)
    column_sums(partial, dweight)
    return dx, dweight


def queue(dy, x, weight, eps):
    """Deterministic on one kind of GPU, as `columns`."""
    return (fits_block(x) and in_registers(dy, x, weight, eps, cluster=1)) or columns(dy, x, weight, eps)


def cluster(dy, x, weight, eps):
    """Deterministic on one kind of GPU, as `columns`."""
    of_cluster = fits_cluster(x) and in_registers(dy, x, weight, eps, blocks_of_row(x.shape[-1]))
    return of_cluster or queue(dy, x, weight, eps)


def rung(name: str, fn: Callable, idea: str, source: tuple[Path, ...], unsupported: Reason = needs_compiler) -> Variant:
    return Variant(5, name, fn, idea, (*source, DEVICE / "reductions.cuh", Path(__file__)), unsupported)


PACKS = (FILE, DEVICE / "packs.cuh", DEVICE / "vectors.cuh")
COLUMNS = (*PACKS, NORM_COLUMNS, COLUMN_SUMS)
VECTORS = (QUEUE, DEVICE / "vectors.cuh", COLUMN_SUMS)
FORWARD = (
    rung("reread", reread, "one block a row, read twice", PACKS),
    rung("kept", kept, "the row stays in registers", (*PACKS, *with_includes(SPLIT))),
)
BACKWARD = (
    rung("columns", columns, "dx by rows, dweight by kernels in which a thread owns a column", COLUMNS),
    rung("queue", queue, "16-byte loads, all sums in registers, the next rows on their way", VECTORS),
    rung("cluster", cluster, "wide rows: shared by the blocks of a cluster", VECTORS, cluster_unsupported),
)
