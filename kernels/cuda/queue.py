"""Launches of kernels whose blocks walk from row to row and keep sums of columns in registers, while the next rows, copied
asynchronously, queue in shared memory: backward passes of norms.

Wide rows are shared by the blocks of a cluster. Rows are whole 16-byte vectors, of two matrices that are read.
"""

import functools
from pathlib import Path

import torch

from kernels.case import Case
from kernels.cuda.kernel import Kernel
from kernels.cuda.rows import VECTOR_BYTES, power_of_2_from, threads_of_row, vectors_of_thread
from kernels.cuda.template import kernel
from kernels.hardware import REFERENCE, WARP, Target
from kernels.machine import Machine, has, multiprocessors, target
from kernels.unsupported import needs_compiler, needs_feature

WIDEST_OF_BLOCK, WIDEST_OF_CLUSTER = 8_192, 32_768  # columns
REGISTERS = {2: 168, 4: REFERENCE.registers_per_thread}  # of a thread, by itemsize
STATIC_SHARED_BYTES = 1024  # at most, of such a kernel


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


def blocks_of_row(N: int) -> int:
    """The blocks that share a row of N columns, 4,096 each: a power of two."""
    return power_of_2_from(-(-N // 4_096))


def fits_block(x: torch.Tensor) -> bool:
    """Whether a block can keep the sums of all columns of x, and has room for a row of two such matrices."""
    N = x.shape[-1]
    return bool(x.numel() and N <= WIDEST_OF_BLOCK and queue_parameters(N, x.itemsize, target(x.device))[3])


def fits_cluster(x: torch.Tensor) -> bool:
    """Whether rows of x are for clusters: narrower ones fit a block, and wider ones are for other kernels."""
    return bool(x.numel() and WIDEST_OF_BLOCK < x.shape[-1] <= WIDEST_OF_CLUSTER and has(x.device, "clusters"))


def cluster_unsupported(case: Case, machine: Machine) -> str | None:
    """Narrower rows are another rung's, and wider ones."""
    of_cluster = WIDEST_OF_BLOCK < case.shape[-1] <= WIDEST_OF_CLUSTER
    return (needs_feature("clusters") if of_cluster else needs_compiler)(case, machine)


def queue_launch(path: Path, name: str, x: torch.Tensor, cluster: int) -> tuple[Kernel, int, tuple]:
    """A kernel for a matrix x, with `cluster` blocks to a row; G, how many groups of rows are under way at once; and its grid,
    block and bytes of dynamic shared memory."""
    M, N = x.shape
    columns = -(-N // cluster)
    parameters = vectors, threads, rows, stages, blocks, _ = queue_parameters(columns, x.itemsize, target(x.device))
    slots = blocks * multiprocessors(x.device)
    if cluster > 1:
        # A cluster lies in one part of the GPU, and no part is an exact number of clusters: on an H200 clusters of 8 blocks
        # leave 12 of 132 multiprocessors over. A cluster too many would run alone, after all others.
        slots = slots * 10 // 11
    G = min(-(-M // rows), slots // cluster)
    shared_bytes = 2 * stages * vectors * threads * rows * VECTOR_BYTES
    options = (f"-DCLUSTER={cluster}",)
    launched = kernel(path, name, x.dtype, *parameters, options=options, shared_bytes=shared_bytes)
    return launched, G, ((G * cluster,), (threads, rows), shared_bytes)
