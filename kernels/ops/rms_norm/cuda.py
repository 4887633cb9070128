"""Level 5: the Python side of rms_norm.cu, rms_norm_narrow.cu, rms_norm_split.cu, and three for the backward.

Rungs of the forward, plain to best:
    reread    one block a row, which reads it twice, by loads as wide as the rows' alignment allows.
    kept      the row stays in registers, of few rows a wide one, too; few that are wider are divided among blocks, and many
              narrow ones that are no whole vectors are copied as such, many at a time.
Rungs of the backward:
    columns   dx by rows, dweight by kernels in which a thread owns a column.
    queue     16-byte loads, all sums in registers, the next rows on their way.
    cluster   wide rows: as queue, a row shared by the blocks of a cluster.
The last two are for rows of up to 8,192 and 32,768 columns: whole 16-byte vectors, or 64 columns or more that start alike
within one in all matrices; `cluster` needs a GPU of sm_90 or newer. Other rows go to `columns`, and rows too wide for
`kept` to `reread`. Before all that `cluster` gives few rows to a kernel of their own (rms_norm_backward_few.cu), and many rows
too narrow to be peeled (rms_norm_backward_narrow.cu).
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.cuda.few import few_gradients
from kernels.cuda.includes import DEVICE, with_includes
from kernels.cuda.narrow import NARROWEST_PADDED, is_narrow, narrow_block
from kernels.cuda.queue import (
    FEWER_REGISTERS,
    NARROWEST_PEELED,
    WIDEST_OF_BLOCK,
    can_be_peeled,
    cluster_unsupported,
    fits_block,
    fits_cluster,
    queue_launch,
)
from kernels.cuda.rows import (
    COLUMN_SUMS,
    NARROW_THREADS,
    NORM_COLUMNS,
    VALUES,
    block_of_rows,
    column_sums,
    norm_columns,
    pack_threads,
    power_of_2_from,
    threads_of_few,
    threads_of_row,
)
from kernels.cuda.template import kernel
from kernels.hardware import WARP
from kernels.machine import multiprocessors
from kernels.operation import Variant
from kernels.row_parts import at_once, columns_of_part, few_rows, threads_of_part
from kernels.unsupported import Reason, needs_compiler
from kernels.vectors import VECTOR_BYTES, in_line, in_vectors, pack_size

FILE, NARROW, SPLIT, QUEUE, FEW, BACKWARD_NARROW = (
    Path(__file__).with_name(f"rms_norm{name}.cu")
    for name in ("", "_narrow", "_split", "_backward_queue", "_backward_few", "_backward_narrow")
)
NARROW_BLOCKS = 4  # of a multiprocessor, of the backward of narrow rows, as of layer norm's
WIDEST_KEPT = 8_192  # columns up to which a multiprocessor's registers hold several rows at once
# And of a few rows one row, by itemsize, but where values are loaded one by one.
WIDEST_OF_FEW, WIDEST_ODD = {4: 16_384, 2: 32_768}, 16_384
# Of many rows a thread has so many packs at most, up to so many threads (book/results/tried/rows_asked_at_once.json).
PACKS_OF_THREAD, MOST_FOR_PACKS = 8, 256


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
    if not x.numel():
        return reread(x, weight, eps)
    rows, columns = as_rows(x), as_columns(weight)
    (M, N), size = rows.shape, pack_size(x.shape[-1], rows, columns)
    few = at_once(M, N, x.device) if N <= WIDEST_KEPT else few_rows(M, x.device)
    if N > WIDEST_KEPT and not (few and (WIDEST_ODD if size == 1 else WIDEST_OF_FEW[x.itemsize]) >= N):
        return (split if few else reread)(x, weight, eps)
    y, whole = empty_contiguous(x), size * x.itemsize == VECTOR_BYTES
    # Packs of several values are as fast, where rows are not narrow.
    apart = whole or N < NARROWEST_PADDED or (size == 1 and x.itemsize == 2)
    if not few and in_line(rows) and apart and is_narrow(rows, whole):
        return narrow(rows, columns, y, eps)
    many = max(threads_of_row(N), min(WARP * -(-N // (WARP * PACKS_OF_THREAD * size)), MOST_FOR_PACKS))
    threads, height = block_of_rows(threads_of_few(N, size) if few else many, -(-N // size))
    parameters = size, -(-N // (size * threads)), threads, height, few, columns is not None
    arguments = (rows, columns, y, rows.stride(0), M, N, np.float32(eps))
    kernel(FILE, "rms_norm_kept", x.dtype, *parameters)((-(-M // height),), (threads, height), arguments)
    return y


def narrow(x, weight, y, eps):
    """y, filled with the norm of a contiguous matrix x that starts at a multiple of 16 bytes."""
    M, N = x.shape
    _, threads, height = parameters = narrow_block(x)
    launched = kernel(NARROW, "rms_norm_narrow", x.dtype, *parameters, weight is not None)
    arguments = (x, weight, y, M, N, np.float32(eps))
    launched((-(-M // height),), (threads, height), arguments, shared_mem=height * N * x.itemsize)
    return y


def split(x, weight, eps):
    """y of an x with at least one element."""
    y, rows, weight = empty_contiguous(x), as_rows(x), as_columns(weight)
    M, N = rows.shape
    size, columns = pack_size(N, rows, weight, y), columns_of_part(M, N, x.device)
    parts = torch.empty(M * -(-N // columns), dtype=torch.float32, device=x.device)
    grid, block = parts.shape, (threads_of_part(columns),)
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


def how_peeled(x) -> dict[str, int]:
    """Values and registers of a thread, for peeled rows of 2 bytes: half as many values where a block has few rows, or they
    nearly fill so many threads; and for one sum of each column fewer registers than for two, which leaves some for more blocks
    (book/results/tried/peeled_rows.json)."""
    M, N = x.shape
    half = N <= 4_096 and (few_rows(M, x.device, 16) or 3 * power_of_2_from(N) < 4 * N)
    return {"values": VALUES // 2 if half else VALUES, "registers": FEWER_REGISTERS}


def in_registers(dy, x, weight, eps, fits: Callable[..., bool] = fits_block):
    """The gradients by rms_norm_backward_queue.cu; None where the rows do not fit a block, or a cluster."""
    dys, rows, columns = as_rows(dy), as_rows(x), as_columns(weight)
    M, N = rows.shape
    peeled = not in_vectors(N, dys, rows, columns)
    how = how_peeled(rows) if peeled and x.itemsize == 2 and N <= WIDEST_OF_BLOCK else {}
    if not fits(x, peeled=peeled, **how):
        how = {}
    if not fits(x, peeled=peeled, **how) or (peeled and not can_be_peeled(dys, rows)):
        return None
    dx, dweight = empty_contiguous(x), None if weight is None else empty_contiguous(weight)
    launched, G, (grid, block, shared_bytes) = queue_launch(QUEUE, QUEUE.stem, rows, peeled=peeled, **how)
    partial = torch.empty((G, 1, N), dtype=torch.float32, device=x.device)
    arguments = (dys, rows, columns, dx, partial, dys.stride(0), rows.stride(0), M, N, np.float32(eps))
    launched(grid, block, arguments, shared_mem=shared_bytes)
    column_sums(partial, dweight)
    return dx, dweight


def queue(dy, x, weight, eps):
    """Deterministic on one kind of GPU, as `columns`."""
    return in_registers(dy, x, weight, eps) or columns(dy, x, weight, eps)


def narrow_gradients(dy, x, weight, eps):
    """The gradients of contiguous rows that are no whole vectors, too narrow to be peeled; None of other matrices."""
    M, N = x.shape
    if not x.numel() or NARROWEST_PEELED <= N or not in_line(dy, x) or in_vectors(N, dy, x, weight):
        return None
    dx, dweight = empty_contiguous(x), None if weight is None else empty_contiguous(weight)
    lanes = power_of_2_from(-(-N // 4))
    height = NARROW_THREADS // lanes
    chunk = 2 * height
    G = min(-(-M // chunk), NARROW_BLOCKS * multiprocessors(x.device))
    partial = torch.empty((G, 1, N), dtype=torch.float32, device=x.device)
    parameters = lanes, -(-N // lanes), NARROW_THREADS, chunk
    launched = kernel(BACKWARD_NARROW, BACKWARD_NARROW.stem, x.dtype, *parameters)
    arguments = (dy, x, weight, dx, partial, M, N, np.float32(eps))
    launched((G,), (lanes, height), arguments, shared_mem=2 * chunk * N * x.itemsize)
    column_sums(partial, dweight)
    return dx, dweight


def cluster(dy, x, weight, eps):
    """Deterministic on one kind of GPU, as `columns`."""
    matrices = as_rows(dy), as_rows(x), as_columns(weight), eps
    found = few_gradients(FEW, matrices[:2], matrices[2], eps, sums=matrices[2:3]) or narrow_gradients(*matrices)
    dx, dweight = found or in_registers(*matrices, fits_cluster) or queue(*matrices)
    return dx.view(x.shape), dweight


def rung(name: str, fn: Callable, idea: str, source: tuple[Path, ...], unsupported: Reason = needs_compiler) -> Variant:
    return Variant(5, name, fn, idea, (*source, DEVICE / "reductions.cuh", Path(__file__)), unsupported)


PACKS = (FILE, DEVICE / "packs.cuh", DEVICE / "vectors.cuh")
COLUMNS = (*PACKS, DEVICE / "rms_row.cuh", NORM_COLUMNS, COLUMN_SUMS)
VECTORS = (*with_includes(QUEUE), COLUMN_SUMS)
FORWARD = (
    rung("reread", reread, "one block a row, read twice", PACKS),
    rung("kept", kept, "the row stays in registers", (*PACKS, *with_includes(NARROW), *with_includes(SPLIT))),
)
BACKWARD = (
    rung("columns", columns, "dx by rows, dweight by kernels in which a thread owns a column", COLUMNS),
    rung("queue", queue, "16-byte loads, all sums in registers, the next rows on their way", VECTORS),
    rung(
        "cluster",
        cluster,
        "wide rows: shared by the blocks of a cluster",
        (*VECTORS, *with_includes(FEW), *with_includes(BACKWARD_NARROW)),
        cluster_unsupported,
    ),
)
