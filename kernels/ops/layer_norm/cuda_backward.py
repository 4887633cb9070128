"""Level 5: the Python side of layer_norm_backward.cu, layer_norm_backward_vector.cu and layer_norm_backward_few.cu.

Rungs, plain to best:
    atomics     one block a row; dweight and dbias by atomic additions.
    partials    dweight and dbias by kernels of their own, in which a thread owns a column.
    queue       16-byte loads, all sums in registers, the next rows on their way.
    cluster     wide rows: as queue, a row shared by the blocks of a cluster.

Each takes (dy, x, weight, bias, eps) and gives (dx, dweight or None, dbias or None). The third is for rows of up to 8,192
columns which start alike in all matrices: narrow ones with a 16-byte vector, others anywhere in one. The last is for wider ones
of them, up to 32,768 columns, and needs a GPU of sm_90 or newer. Other rows go from `queue` to `partials`, and from `cluster`,
where they are not narrow, to the kernels of cuda_split.py, as do few rows for clusters. Before all that the last rung
gives few rows to a kernel of their own.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.cuda.few import few_gradients
from kernels.cuda.includes import with_includes
from kernels.cuda.queue import NARROWEST_PEELED, WIDEST_OF_BLOCK, can_be_peeled, fits_block, fits_cluster, queue_launch
from kernels.cuda.rows import (
    COLUMN_SUMS,
    NARROW_THREADS,
    NORM_COLUMNS,
    VALUES,
    column_sums,
    norm_columns,
    one_block_a_row,
    power_of_2_from,
)
from kernels.cuda.template import kernel
from kernels.machine import multiprocessors
from kernels.operation import Variant
from kernels.ops.layer_norm import cuda_split, cuda_stripes
from kernels.ops.layer_norm.cases import too_many_atomics
from kernels.ops.layer_norm.cuda_split import BACKWARD_SPLIT, split_backward
from kernels.ops.layer_norm.cuda_stripes import striped
from kernels.ops.layer_norm.native import Gradients
from kernels.row_parts import NARROWEST, few_rows
from kernels.unsupported import first_of, needs_compiler
from kernels.vectors import in_line, in_vectors

SOURCE = Path(__file__).with_name("layer_norm_backward.cu")
VECTOR_SOURCE = Path(__file__).with_name("layer_norm_backward_vector.cu")
FEW_SOURCE, NARROW_SOURCE = (Path(__file__).with_name(f"layer_norm_backward_{name}.cu") for name in ("few", "narrow"))
# The values of a thread, where that was faster (book/results/tried/narrow_rows.json and peeled_rows.json).
HALF = VALUES // 2
FILLING_PEELED, FILLING = range(1_025), range(1_025, 4_097)  # columns of 2 bytes that nearly fill such threads
WIDEST_HALF = WIDEST_OF_BLOCK - 3  # of wider peeled rows a thread would have a vector more
NARROW_BLOCKS = 4  # of a multiprocessor; no other number is timed


def empty_gradients(x, weight, bias) -> Gradients:
    return empty_contiguous(x), *(None if of is None else empty_contiguous(of) for of in (weight, bias))


def without_rows(dx, dweight, dbias) -> Gradients:
    """The gradients where x has no element: sums of nothing."""
    for sums in (dweight, dbias):
        if sums is not None:
            sums.zero_()
    return dx, dweight, dbias


def atomics(dy, x, weight, bias, eps) -> Gradients:
    """Not deterministic: the order in which blocks add to dweight and dbias, and so their rounding, changes by chance."""
    dx = empty_contiguous(x)
    sums = [
        None if of is None else torch.zeros(of.shape, dtype=torch.float32, device=x.device) for of in (weight, bias)
    ]
    launched = kernel(SOURCE, "layer_norm_backward_atomics", x.dtype)
    one_block_a_row(launched, (dy, x), (as_columns(weight), dx, *sums), np.float32(eps))
    return dx, *(None if of is None else of.to(x.dtype) for of in sums)


def partials(dy, x, weight, bias, eps) -> Gradients:
    """Deterministic on one kind of GPU: which rows a block adds up, and in which order, is fixed."""
    dx, dweight, dbias = empty_gradients(x, weight, bias)
    if not x.numel():
        return without_rows(dx, dweight, dbias)
    dy_rows, rows = as_rows(dy), as_rows(x)
    statistics = torch.empty((len(rows), 2), dtype=torch.float32, device=x.device)
    launched = kernel(SOURCE, "layer_norm_backward_rows", x.dtype)
    one_block_a_row(launched, (dy_rows, rows), (as_columns(weight), dx, statistics), np.float32(eps))
    columns_kernel = kernel(SOURCE, "layer_norm_backward_columns", x.dtype)
    norm_columns(columns_kernel, dy_rows, rows, statistics, dweight, dbias)
    return dx, dweight, dbias


def values_of_thread(x: torch.Tensor, peeled: bool) -> int:
    """How many values of a row of the matrix x a thread has. Half as many leave registers for more threads, which help rows to
    begin sooner, where a block has few; but of rows that fill fewer of them more of these do nothing."""
    M, N = x.shape
    fills = 3 * power_of_2_from(N) < 4 * N
    if not peeled:
        return HALF if x.itemsize == 2 and fills and N in FILLING else VALUES
    sooner = N > 4_096 or few_rows(M, x.device, rows_per_multiprocessor=16) or (fills and N in FILLING_PEELED)
    return HALF if N <= WIDEST_HALF and (x.itemsize == 4 or sooner) else VALUES


def in_registers(dy, x, weight, bias, eps, fits: Callable[..., bool] = fits_block) -> Gradients | None:
    """The gradients by layer_norm_backward_vector.cu; None where the rows of the matrices do not fit a block, or a cluster."""
    M, N = x.shape
    peeled = not in_vectors(N, dy, x, weight)
    kept, values = int(peeled), values_of_thread(x, peeled)  # kept: weight
    if not fits(x, peeled=peeled, values=values, kept=kept) or (peeled and not can_be_peeled(dy, x)):
        return None
    dx, dweight, dbias = empty_gradients(x, weight, bias)
    launched, G, (grid, block, shared_bytes) = queue_launch(
        VECTOR_SOURCE, "layer_norm_backward_vector", x, peeled=peeled, values=values, kept=kept
    )
    partial = torch.empty((G, 2, N), dtype=torch.float32, device=x.device)
    arguments = (dy, x, weight, dx, partial, dy.stride(0), x.stride(0), M, N, np.float32(eps))
    launched(grid, block, arguments, shared_mem=shared_bytes)
    column_sums(partial, dweight, dbias)
    return dx, dweight, dbias


def queued(dy, x, weight, bias, eps) -> Gradients | None:
    """The gradients with a block to a row; None where the rows do not fit."""
    found = in_registers(as_rows(dy), as_rows(x), as_columns(weight), bias, eps) if x.numel() else None
    return found and (found[0].view(x.shape), *found[1:])


def queue(dy, x, weight, bias, eps) -> Gradients:
    """Deterministic on one kind of GPU: which rows a block adds up, and in which order, is fixed."""
    return queued(dy, x, weight, bias, eps) or partials(dy, x, weight, bias, eps)


def narrow(dy, x, weight, bias, eps) -> Gradients:
    """The gradients of contiguous rows that are no whole vectors, too narrow to be peeled."""
    dx, dweight, dbias = empty_gradients(x, weight, bias)
    M, N = x.shape
    lanes = power_of_2_from(-(-N // 4))
    height = NARROW_THREADS // lanes
    chunk = 2 * height
    G = min(-(-M // chunk), NARROW_BLOCKS * multiprocessors(x.device))
    partial = torch.empty((G, 2, N), dtype=torch.float32, device=x.device)
    launched = kernel(NARROW_SOURCE, NARROW_SOURCE.stem, x.dtype, lanes, -(-N // lanes), NARROW_THREADS, chunk)
    arguments = (dy, x, weight, dx, partial, M, N, np.float32(eps))
    launched((G,), (lanes, height), arguments, shared_mem=2 * chunk * N * x.itemsize)
    column_sums(partial, dweight, dbias)
    return dx, dweight, dbias


def many(dy, x, weight, bias, eps) -> Gradients:
    """The gradients of other matrices."""
    M, N = x.shape
    if not x.numel() or N < NARROWEST:
        if x.numel() and N < NARROWEST_PEELED and in_line(dy, x) and not in_vectors(N, dy, x, weight):
            return narrow(dy, x, weight, bias, eps)
        return queue(dy, x, weight, bias, eps)
    if gradients := queued(dy, x, weight, bias, eps):
        return gradients
    # Of few rows a cluster would walk over two or three: each is divided among more blocks instead.
    walks = not few_rows(M, x.device, rows_per_multiprocessor=2)
    found = in_registers(dy, x, weight, bias, eps, fits_cluster) if walks else None
    return found or split_backward(dy, x, weight, bias, eps)


def cluster(dy, x, weight, bias, eps) -> Gradients:
    """Deterministic on one kind of GPU: which rows a block or cluster adds up, and in which order, is fixed."""
    dys, rows, columns = as_rows(dy), as_rows(x), as_columns(weight)
    found = striped(FEW_SOURCE, dys, rows, columns, bias, eps)
    found = found or few_gradients(FEW_SOURCE, (dys, rows), columns, eps, sums=(columns, bias))
    dx, dweight, dbias = found or many(dys, rows, columns, bias, eps)
    return dx.view(x.shape), dweight, dbias


ATOMICS = (SOURCE, Path(__file__))
PARTIALS = (SOURCE, NORM_COLUMNS, COLUMN_SUMS, Path(__file__))
VECTOR = (*with_includes(VECTOR_SOURCE), COLUMN_SUMS, Path(__file__))
BACKWARD = (
    Variant(
        5,
        "atomics",
        atomics,
        "dweight and dbias by an atomic addition an element",
        ATOMICS,
        first_of(too_many_atomics, needs_compiler),
        deterministic=False,
    ),
    Variant(
        5,
        "partials",
        partials,
        "dweight and dbias by kernels in which a thread owns a column",
        PARTIALS,
        needs_compiler,
    ),
    Variant(
        5, "queue", queue, "16-byte loads, all sums in registers, the next rows on their way", VECTOR, needs_compiler
    ),
    Variant(
        5,
        "cluster",
        cluster,
        "wide rows: shared by the blocks of a cluster",
        (
            *VECTOR,
            *with_includes(FEW_SOURCE),
            *with_includes(NARROW_SOURCE),
            *with_includes(BACKWARD_SPLIT),
            Path(cuda_split.__file__),
            Path(cuda_stripes.__file__),
        ),
        needs_compiler,
    ),
)
