"""Level 5: the Python side of layer_norm_backward.cu and layer_norm_backward_vector.cu.

Rungs, plain to best:
    atomics     one block a row; dweight and dbias by atomic additions.
    partials    dweight and dbias by kernels of their own, in which a thread owns a column.
    queue       16-byte loads, all sums in registers, the next rows on their way.
    cluster     wide rows: as queue, a row shared by the blocks of a cluster.

Each takes (dy, x, weight, bias, eps) and gives (dx, dweight or None, dbias or None). The last two need rows of whole 16-byte
vectors, up to 8,192 and 32,768 columns, and the last a GPU of sm_90 or newer; other rows go to `partials`.
"""

import functools
from pathlib import Path

import numpy as np
import torch

from kernels.arguments import as_columns, as_rows, empty_contiguous
from kernels.cuda.includes import DEVICE
from kernels.cuda.rows import (
    COLUMN_SUMS,
    NORM_COLUMNS,
    VECTOR_BYTES,
    column_sums,
    in_vectors,
    norm_columns,
    power_of_2_from,
    scalar_threads,
    threads_of_row,
    vectors_of_thread,
)
from kernels.cuda.template import kernel
from kernels.hardware import REFERENCE, WARP, Target
from kernels.machine import Machine, has, multiprocessors, target
from kernels.operation import Case, Variant
from kernels.ops.layer_norm.cases import too_many_atomics
from kernels.ops.layer_norm.registration import Gradients
from kernels.unsupported import first_of, needs_compiler, needs_feature

SOURCE = Path(__file__).with_name("layer_norm_backward.cu")
VECTOR_SOURCE = Path(__file__).with_name("layer_norm_backward_vector.cu")
WIDEST_OF_BLOCK, WIDEST_OF_CLUSTER = 8_192, 32_768  # columns
REGISTERS = {2: 168, 4: REFERENCE.registers_per_thread}  # of a thread, by itemsize
STATIC_SHARED_BYTES = 1024  # at most, of the kernel in which a row lies in registers


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
    if x.numel():
        dy_rows, rows, columns = as_rows(dy), as_rows(x), as_columns(weight)
        M, N = rows.shape
        arguments = (dy_rows, rows, columns, dx, *sums, dy_rows.stride(0), rows.stride(0), N, np.float32(eps))
        kernel(SOURCE, "layer_norm_backward_atomics", x.dtype)((M,), (scalar_threads(N),), arguments)
    return dx, *(None if of is None else of.to(x.dtype) for of in sums)


def partials(dy, x, weight, bias, eps) -> Gradients:
    """Deterministic on one kind of GPU: which rows a block adds up, and in which order, is fixed."""
    dx, dweight, dbias = empty_gradients(x, weight, bias)
    if not x.numel():
        return without_rows(dx, dweight, dbias)
    dy_rows, rows, columns = as_rows(dy), as_rows(x), as_columns(weight)
    M, N = rows.shape
    strides = dy_rows.stride(0), rows.stride(0)
    statistics = torch.empty((M, 2), dtype=torch.float32, device=x.device)
    arguments = (dy_rows, rows, columns, dx, statistics, *strides, N, np.float32(eps))
    kernel(SOURCE, "layer_norm_backward_rows", x.dtype)((M,), (scalar_threads(N),), arguments)
    columns_kernel = kernel(SOURCE, "layer_norm_backward_columns", x.dtype)
    norm_columns(columns_kernel, dy_rows, rows, statistics, dweight, dbias)
    return dx, dweight, dbias


@functools.cache
def queue_parameters(N: int, itemsize: int, target: Target) -> tuple[int, int, int, int, int, bool]:
    """VECTORS, THREADS, ROWS and STAGES of a block, BLOCKS of a multiprocessor, and FULL, for N columns in a block.

    STAGES is 0 where not even one row has room in shared memory.
    """
    threads = power_of_2_from(threads_of_row(N))  # the parts of a row, one a warp, are merged in pairs
    vectors = vectors_of_thread(N, threads, itemsize)
    full = vectors * threads * VECTOR_BYTES == N * itemsize
    rows, blocks, most = 8, 1, 2
    if threads > WARP:
        rows, blocks, most = 1, max(target.registers_per_multiprocessor // (REGISTERS[itemsize] * threads), 1), 3
    room = target.shared_bytes_per_block - STATIC_SHARED_BYTES
    stages = min(room // (blocks * 2 * vectors * threads * rows * VECTOR_BYTES), most)
    return vectors, threads, rows, stages, blocks, full


def in_registers(dy, x, weight, bias, eps, cluster: int) -> Gradients:
    """The gradients by the kernel of layer_norm_backward_vector.cu, with `cluster` blocks to a row."""
    dx, dweight, dbias = empty_gradients(x, weight, bias)
    M, N = x.shape
    columns = -(-N // cluster)
    parameters = vectors, threads, rows, stages, blocks, full = queue_parameters(columns, x.itemsize, target(x.device))
    slots = blocks * multiprocessors(x.device)
    if cluster > 1:
        # A cluster lies in one part of the GPU, and no part is an exact number of clusters: on an H200 clusters of 8 blocks
        # leave 12 of 132 multiprocessors over. A cluster too many would run alone, after all others.
        slots = slots * 10 // 11
    G = min(-(-M // rows), slots // cluster)
    partial = torch.empty((G, 2, N), dtype=torch.float32, device=x.device)
    shared_bytes = 2 * stages * vectors * threads * rows * VECTOR_BYTES
    options = (f"-DCLUSTER={cluster}",)
    launched = kernel(
        VECTOR_SOURCE,
        "layer_norm_backward_vector",
        x.dtype,
        *parameters,
        options=options,
        shared_bytes=shared_bytes,
    )
    arguments = (dy, x, weight, dx, partial, dy.stride(0), x.stride(0), M, N, np.float32(eps))
    launched((G * cluster,), (threads, rows), arguments, shared_mem=shared_bytes)
    column_sums(partial, dweight, dbias)
    return dx, dweight, dbias


def queue(dy, x, weight, bias, eps) -> Gradients:
    """Deterministic on one kind of GPU: which rows a block adds up, and in which order, is fixed."""
    N = x.shape[-1]
    if x.numel() and N <= WIDEST_OF_BLOCK and queue_parameters(N, x.itemsize, target(x.device))[3]:
        dy_rows, rows, columns = as_rows(dy), as_rows(x), as_columns(weight)
        if in_vectors(N, dy_rows, rows, columns):
            dx, dweight, dbias = in_registers(dy_rows, rows, columns, bias, eps, cluster=1)
            return dx.view(x.shape), dweight, dbias
    return partials(dy, x, weight, bias, eps)


def blocks_of_row(N: int) -> int:
    """The blocks that share a row of N columns, 4,096 each: a power of two."""
    return power_of_2_from(-(-N // 4_096))


def cluster(dy, x, weight, bias, eps) -> Gradients:
    """Deterministic on one kind of GPU: which rows a cluster adds up, and in which order, is fixed."""
    N = x.shape[-1]
    if x.numel() and WIDEST_OF_BLOCK < N <= WIDEST_OF_CLUSTER and has(x.device, "clusters"):
        dy_rows, rows, columns = as_rows(dy), as_rows(x), as_columns(weight)
        if in_vectors(N, dy_rows, rows, columns):
            dx, dweight, dbias = in_registers(dy_rows, rows, columns, bias, eps, blocks_of_row(N))
            return dx.view(x.shape), dweight, dbias
    return queue(dy, x, weight, bias, eps)


def cluster_unsupported(case: Case, machine: Machine) -> str | None:
    """Narrower rows are another rung's, and wider ones."""
    of_cluster = WIDEST_OF_BLOCK < case.shape[-1] <= WIDEST_OF_CLUSTER
    return (needs_feature("clusters") if of_cluster else needs_compiler)(case, machine)


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
    Variant(5, "cluster", cluster, "wide rows: shared by the blocks of a cluster", VECTOR, cluster_unsupported),
)
