"""Level 5: the Python side of layer_norm_backward.cu and layer_norm_backward_vector.cu.

Rungs, plain to best:
    atomics     one block a row; dweight and dbias by atomic additions.
    partials    dweight and dbias by kernels of their own, in which a thread owns a column.
    queue       16-byte loads, all sums in registers, the next rows on their way.
    cluster     wide rows: as queue, a row shared by the blocks of a cluster.

Each takes (dy, x, weight, bias, eps) and gives (dx, dweight or None, dbias or None). The last two need rows of whole 16-byte
vectors, up to 8,192 and 32,768 columns, and the last a GPU of sm_90 or newer. Other rows go from `queue` to `partials`, and
from `cluster`, where they are not narrow, to the kernels of cuda_split.py, as do few rows for clusters.
"""

from pathlib import Path

import numpy as np
import torch

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.cuda.includes import DEVICE, with_includes
from kernels.cuda.queue import blocks_of_row, fits_block, fits_cluster, queue_launch
from kernels.cuda.rows import COLUMN_SUMS, NORM_COLUMNS, column_sums, in_vectors, norm_columns, one_block_a_row
from kernels.cuda.template import kernel
from kernels.operation import Variant
from kernels.ops.layer_norm import cuda_split
from kernels.ops.layer_norm.cases import too_many_atomics
from kernels.ops.layer_norm.cuda_split import BACKWARD_SPLIT, split_backward
from kernels.ops.layer_norm.native import Gradients
from kernels.row_parts import NARROWEST, few_rows
from kernels.unsupported import first_of, needs_compiler

SOURCE = Path(__file__).with_name("layer_norm_backward.cu")
VECTOR_SOURCE = Path(__file__).with_name("layer_norm_backward_vector.cu")


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


def in_registers(dy, x, weight, bias, eps, cluster: int) -> Gradients:
    """The gradients by the kernel of layer_norm_backward_vector.cu, with `cluster` blocks to a row."""
    dx, dweight, dbias = empty_gradients(x, weight, bias)
    M, N = x.shape
    launched, G, (grid, block, shared_bytes) = queue_launch(VECTOR_SOURCE, "layer_norm_backward_vector", x, cluster)
    partial = torch.empty((G, 2, N), dtype=torch.float32, device=x.device)
    arguments = (dy, x, weight, dx, partial, dy.stride(0), x.stride(0), M, N, np.float32(eps))
    launched(grid, block, arguments, shared_mem=shared_bytes)
    column_sums(partial, dweight, dbias)
    return dx, dweight, dbias


def queue(dy, x, weight, bias, eps) -> Gradients:
    """Deterministic on one kind of GPU: which rows a block adds up, and in which order, is fixed."""
    if fits_block(x):
        dy_rows, rows, columns = as_rows(dy), as_rows(x), as_columns(weight)
        if in_vectors(x.shape[-1], dy_rows, rows, columns):
            dx, dweight, dbias = in_registers(dy_rows, rows, columns, bias, eps, cluster=1)
            return dx.view(x.shape), dweight, dbias
    return partials(dy, x, weight, bias, eps)


def cluster(dy, x, weight, bias, eps) -> Gradients:
    """Deterministic on one kind of GPU: which rows a cluster adds up, and in which order, is fixed."""
    N = x.shape[-1]
    if not x.numel() or N < NARROWEST:
        return queue(dy, x, weight, bias, eps)
    dy_rows, rows, columns = as_rows(dy), as_rows(x), as_columns(weight)
    vectors = in_vectors(N, dy_rows, rows, columns)
    if vectors and fits_block(x):
        return queue(dy, x, weight, bias, eps)
    # Of few rows a cluster would walk over two or three: each is divided among more blocks instead.
    if vectors and fits_cluster(x) and not few_rows(rows.shape[0], x.device, of_multiprocessor=2):
        dx, dweight, dbias = in_registers(dy_rows, rows, columns, bias, eps, blocks_of_row(N))
        return dx.view(x.shape), dweight, dbias
    return split_backward(dy, x, weight, bias, eps)


ATOMICS = (SOURCE, Path(__file__))
PARTIALS = (SOURCE, NORM_COLUMNS, COLUMN_SUMS, Path(__file__))
VECTOR = (VECTOR_SOURCE, DEVICE / "vectors.cuh", DEVICE / "reductions.cuh", COLUMN_SUMS, Path(__file__))
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
        (*VECTOR, *with_includes(BACKWARD_SPLIT), Path(cuda_split.__file__)),
        needs_compiler,
    ),
)
