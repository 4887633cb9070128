"""Level 5: the Python side of layer_norm_gelu.cu, layer_norm_gelu_backward_queue.cu and layer_norm_gelu_backward_few.cu.

Rungs of the forward, plain to best:
    reread    one block a row, which reads it three times.
    kept      the row stays in registers.
Rungs of the backward:
    columns   statistics by rows, then all else by columns.
    queue     dy and x are read once, by 16-byte loads, the next rows on their way meanwhile.
Rows too wide for `kept` go to `reread`. `queue` is for rows of up to 8,192 columns, whole 16-byte vectors, or 64 columns or
more that start alike within one in dy and x, and on a GPU of sm_90 or newer for up to 32,768, by clusters of blocks; others go
to `columns`. Before that so few rows that one block has all of them, wherever they start, go to a kernel of their own.
"""

from pathlib import Path

import numpy as np
import torch

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.cuda.few import ALONE, VALUES_OF_ROW, few_parameters
from kernels.cuda.includes import DEVICE, with_includes
from kernels.cuda.queue import WIDEST_OF_BLOCK, can_be_peeled, fits_block, fits_cluster, queue_launch
from kernels.cuda.rows import (
    COLUMN_SUMS,
    MOST_THREADS,
    block_of_rows,
    column_blocks_of_packs,
    column_sums,
    pack_threads,
    threads_of_few,
    threads_of_row,
)
from kernels.cuda.template import kernel
from kernels.operation import Variant
from kernels.row_parts import at_once, few_rows
from kernels.unsupported import needs_compiler
from kernels.vectors import in_vectors, pack_size

FILE, QUEUE, FEW = (
    Path(__file__).with_name(f"layer_norm_gelu{name}.cu") for name in ("", "_backward_queue", "_backward_few")
)
KEPT = {
    "values": 16,
    "kept": 2,
}  # what a thread of `queue` has of a row, and the rows beside its queue: weight and bias
KEPT_OF_CLUSTER = {"kept": 2}  # where more values of a thread leave a lane for each warp that has part of a row
# Rows that are no whole vectors, and too few for a queue (book/results/tried/queues_and_few.json).
FEW_PEELED = 32
WIDEST_KEPT = 8_192  # columns up to which a multiprocessor's registers hold several rows at once


def reread(x, weight, bias, eps):
    y = empty_contiguous(x)
    if y.numel():
        rows, weight, bias = as_rows(x), as_columns(weight), as_columns(bias)
        M, N = rows.shape
        size = pack_size(N, rows, weight, bias, y)
        arguments = (rows, weight, bias, y, rows.stride(0), N, np.float32(eps))
        kernel(FILE, "layer_norm_gelu_reread", x.dtype, size)((M,), (pack_threads(N, size),), arguments)
    return y


def kept(x, weight, bias, eps):
    N = x.shape[-1]
    if not x.numel() or N > WIDEST_KEPT:
        return reread(x, weight, bias, eps)
    y, rows, weight, bias = empty_contiguous(x), as_rows(x), as_columns(weight), as_columns(bias)
    M, size = rows.shape[0], pack_size(N, rows, weight, bias, y)
    wanted = threads_of_few(N, size) if at_once(M, N, x.device) else threads_of_row(N)
    threads, height = block_of_rows(wanted, -(-N // size))
    parameters = size, -(-N // (size * threads)), threads, height
    arguments = (rows, weight, bias, y, rows.stride(0), M, N, np.float32(eps))
    kernel(FILE, "layer_norm_gelu_kept", x.dtype, *parameters)((-(-M // height),), (threads, height), arguments)
    return y


def columns(dy, x, weight, bias, eps):
    """Deterministic on one kind of GPU: which rows a block adds up, and in which order, is fixed."""
    dx, dweight, dbias = map(empty_contiguous, (x, weight, bias))
    if not x.numel():
        return dx, dweight.zero_(), dbias.zero_()
    dys, rows, weight, bias = as_rows(dy), as_rows(x), as_columns(weight), as_columns(bias)
    M, N = rows.shape
    size, strides = pack_size(N, dys, rows, weight, bias, dx), (dys.stride(0), rows.stride(0))
    statistics = rows.new_empty((M, 5), dtype=torch.float32)  # Sums of layer_norm_gelu.cu
    arguments = (dys, rows, weight, bias, statistics, *strides, N, np.float32(eps))
    kernel(FILE, "layer_norm_gelu_backward_statistics", x.dtype, size)((M,), (pack_threads(N, size),), arguments)
    (across, G), block = column_blocks_of_packs(M, N, size, x.device)
    partial = rows.new_empty((G, 2, N), dtype=torch.float32) if G > 1 else None
    given = (dys, rows, weight, bias, statistics, dx, dweight, dbias, partial, *strides, M, N)
    kernel(FILE, "layer_norm_gelu_backward_columns", x.dtype, size)((across, G), block, given)
    if partial is not None:
        column_sums(partial, dweight, dbias)
    return dx, dweight, dbias


def few(dy, x, weight, bias, eps):
    """The gradients by one block; None of matrices that are not for it."""
    dys, rows, weights, biases = as_rows(dy), as_rows(x), as_columns(weight), as_columns(bias)
    M, N = rows.shape
    if not 0 < M * N <= ALONE:
        return None
    size = min(pack_size(N, dys, rows, weights, biases), VALUES_OF_ROW)
    (packs, _, lanes), (threads, together) = few_parameters(N, size, 1)
    height = -(-M // together) * together  # whole warps
    if threads * height > MOST_THREADS:
        return None
    dx, dweight, dbias = map(empty_contiguous, (x, weight, bias))
    arguments = (dys, rows, weights, biases, dx, dweight, dbias, dys.stride(0), rows.stride(0), M, N, np.float32(eps))
    kernel(FEW, FEW.stem, x.dtype, size, packs, lanes)((1,), (threads, height), arguments)
    return dx, dweight, dbias


def queue(dy, x, weight, bias, eps):
    """Deterministic on one kind of GPU, as `columns`."""
    return few(dy, x, weight, bias, eps) or queued(dy, x, weight, bias, eps)


def queued(dy, x, weight, bias, eps):
    """The gradients of more rows."""
    dys, rows, weights, biases = as_rows(dy), as_rows(x), as_columns(weight), as_columns(bias)
    M, N = rows.shape
    peeled = not in_vectors(N, dys, rows, weights, biases)
    kept = KEPT if N <= WIDEST_OF_BLOCK else KEPT_OF_CLUSTER
    # Of few rows a cluster would walk over two or three, the larger ones over more of them
    # (book/results/tried/clusters_and_stripes.json and peeled_rows.json).
    walks = not few_rows(M, x.device, rows_per_multiprocessor=0.5 if N <= 16_384 else 2)
    fits = fits_block(rows, peeled=peeled, **kept) or (walks and fits_cluster(rows, peeled=peeled, **KEPT_OF_CLUSTER))
    if not fits or (peeled and (M <= FEW_PEELED or not can_be_peeled(dys, rows))):
        return columns(dy, x, weight, bias, eps)
    dx, dweight, dbias = map(empty_contiguous, (x, weight, bias))
    launched, G, (grid, block, shared_bytes) = queue_launch(QUEUE, QUEUE.stem, rows, peeled=peeled, **kept)
    partial = rows.new_empty((G, 2, N), dtype=torch.float32)
    arguments = (dys, rows, weights, biases, dx, partial, dys.stride(0), rows.stride(0), M, N, np.float32(eps))
    launched(grid, block, arguments, shared_mem=shared_bytes)
    column_sums(partial, dweight, dbias)
    return dx, dweight, dbias


SOURCE = (
    FILE,
    *(DEVICE / name for name in ("activations.cuh", "packs.cuh", "vectors.cuh", "reductions.cuh")),
    Path(__file__),
)
FORWARD = (
    Variant(5, "reread", reread, "one block a row, read three times", SOURCE, needs_compiler),
    Variant(5, "kept", kept, "the row stays in registers", SOURCE, needs_compiler),
)
BACKWARD = (
    Variant(
        5, "columns", columns, "statistics by rows, then all else by columns", (*SOURCE, COLUMN_SUMS), needs_compiler
    ),
    Variant(
        5,
        "queue",
        queue,
        "16-byte loads, all sums in registers, the next rows on their way",
        (*with_includes(QUEUE), *with_includes(FEW), COLUMN_SUMS, Path(__file__)),
        needs_compiler,
    ),
)
