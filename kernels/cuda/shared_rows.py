"""Launches of kernels that keep rows in shared memory, written with shared_rows.cuh."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from kernels.cuda.includes import DEVICE
from kernels.cuda.rows import MOST_THREADS, power_of_2_from
from kernels.cuda.template import kernel
from kernels.hardware import WARP
from kernels.machine import has, multiprocessors, target
from kernels.row_parts import few_rows
from kernels.vectors import VECTOR_BYTES

SHARED_ROWS = DEVICE / "shared_rows.cuh"
WIDEST_OF_BLOCK = 5_120  # vectors of a row, up to which a block takes it alone
WIDE = 3_072  # vectors of a row, from which a cluster may take it (book/results/tried/queues_and_few.json)
THREADS_AT_ONCE = 2_048  # of a multiprocessor: where every vector of a matrix has one, a thread takes one
CLUSTER = 8  # blocks: as many as every GPU with clusters grants
STATIC_SHARED_BYTES = 1_024  # at most, beside the dynamic


def launch_shared_rows(
    path: Path, name: str, out: torch.Tensor, *given: torch.Tensor, more: Sequence[Any] = (), clusters: bool = False
) -> bool:
    """Launch name<dtype, VECTORS, THREADS, ROWS>(*given, out, *strides, M, N, *more), unless the rows do not fit.

    Args:
        out: a contiguous matrix of M rows of N columns, with an element at least.
        given: matrices of its shape and dtype, with neighbouring columns.
        clusters: whether the blocks of a cluster may share a row.

    Returns:
        whether it was launched: not where rows of `given` start otherwise within 16 bytes than those of `out`, nor where they
        take more shared memory than there is.
    """
    M, N = out.shape
    vectors, cluster = vectors_of_row(out, *given), 1
    if not vectors:
        return False
    if clusters and (vectors > WIDEST_OF_BLOCK or few_wide_rows(out)) and has(out.device, "clusters"):
        cluster = CLUSTER
    at_once = M * vectors <= multiprocessors(out.device) * THREADS_AT_ONCE
    parameters = thread_vectors, threads, block_rows = vector_parameters(
        -(-vectors // cluster), cluster, 1 if at_once else 4
    )
    shared_bytes = len(given) * thread_vectors * threads * block_rows * VECTOR_BYTES
    if shared_bytes > target(out.device).shared_bytes_per_block - STATIC_SHARED_BYTES:
        return False
    options = (f"-DCLUSTER={cluster}",)
    launched = kernel(path, name, out.dtype, *parameters, options=options, shared_bytes=shared_bytes)
    arguments = (*given, out, *(matrix.stride(0) for matrix in given), M, N, *more)
    launched((-(-M // block_rows) * cluster,), (threads, block_rows), arguments, shared_mem=shared_bytes)
    return True


def few_wide_rows(matrix: torch.Tensor) -> bool:
    """Whether a block for each row would leave half of the multiprocessors without one, and a row is worth several."""
    M, N = matrix.shape
    return N * matrix.itemsize >= WIDE * VECTOR_BYTES and few_rows(M, matrix.device)


def vectors_of_row(out: torch.Tensor, *given: torch.Tensor) -> int:
    """The 16-byte vectors that a row of a contiguous matrix lies in, at most; 0 where rows of others start otherwise."""
    N, itemsize = out.shape[-1], out.itemsize
    if any((m.data_ptr() - out.data_ptr() | (m.stride(0) - N) * itemsize) % VECTOR_BYTES for m in given):
        return 0
    before = VECTOR_BYTES - itemsize if (out.data_ptr() | N * itemsize) % VECTOR_BYTES else 0
    return -(-(before + N * itemsize) // VECTOR_BYTES)


def vector_parameters(vectors: int, cluster: int, thread_vectors: int = 4) -> tuple[int, int, int]:
    """VECTORS, THREADS and ROWS for so many vectors of a row in a block: `thread_vectors` or more a thread, eight or more in a
    cluster, whose barriers wait for every warp, and of which a block has two at least."""
    if cluster > 1:
        threads = min(max(1 << (vectors // 8).bit_length() - 1, 2 * WARP), MOST_THREADS)
    elif thread_vectors > 1 and vectors > thread_vectors * WARP:
        threads = min(1 << (vectors // thread_vectors).bit_length() - 1, MOST_THREADS)
    else:  # neighbouring threads read 64 bytes at least
        wanted = max(power_of_2_from(-(-vectors // thread_vectors)), min(power_of_2_from(vectors), 4))
        threads = min(wanted, MOST_THREADS)
    return -(-vectors // threads), threads, 128 // threads if threads < WARP else max(64 // threads, 1)
