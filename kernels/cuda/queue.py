"""Launches of kernels whose blocks walk from row to row and keep sums of columns in registers, while the next rows, copied
asynchronously, queue in shared memory: backward passes of norms.

Wide rows are shared by the blocks of a cluster, and narrow ones, of one vector a thread, share warps. Rows are whole 16-byte
vectors, of two or more matrices that are read, or rows that start and end within a vector, in all matrices alike: they are
*peeled*.
"""

import functools
import math
from pathlib import Path

import torch

from kernels.case import Case
from kernels.cuda.kernel import Kernel
from kernels.cuda.rows import NARROW_THREADS, VALUES, power_of_2_from, vectors_of_thread
from kernels.cuda.template import kernel
from kernels.hardware import REFERENCE, WARP, Target
from kernels.machine import Machine, has, multiprocessors, target
from kernels.unsupported import needs_compiler, needs_feature
from kernels.vectors import VECTOR_BYTES

WIDEST_OF_BLOCK, WIDEST_OF_CLUSTER = 8_192, 32_768  # columns
# Columns below which a row's ends are too much of it: of 17, what reads rows twice takes two thirds of the time
# (book/results/tried/norm_rungs.json).
NARROWEST_PEELED = 64
REGISTERS = {2: 168, 4: REFERENCE.registers_per_thread}  # of a thread that holds VALUES of a row, by itemsize
FEWER_REGISTERS = 128  # of one that holds fewer
STATIC_SHARED_BYTES = 1024  # at most, of such a kernel


@functools.cache
def queue_parameters(
    N: int,
    itemsize: int,
    target: Target,
    matrices: int = 2,
    values: int = VALUES,
    kept: int = 0,
    registers: int | None = None,
) -> tuple[int, int, int, int, int, bool]:
    """VECTORS, THREADS, ROWS and STAGES of a block, BLOCKS of a multiprocessor, and FULL, for N columns in a block of each of
    so many matrices that are read, with so many values of a thread, and beside the queue so many rows that are kept. A thread
    has so many registers, or what such kernels need for two sums of each column.

    STAGES is 0 where not even one row has room in shared memory.
    """
    # The parts of a row, one a warp, are merged in pairs. What peeled rows have beyond the widest is a vector more for some.
    threads = min(power_of_2_from(WARP * -(-N // (WARP * values))), WIDEST_OF_BLOCK // values)
    vectors = vectors_of_thread(N, threads, itemsize)
    registers = registers or (REGISTERS[itemsize] if values == VALUES else FEWER_REGISTERS)
    rows, most = 8, 2
    blocks = max(target.registers_per_multiprocessor // (registers * rows * WARP), 1)
    if vectors == 1:
        # A thread has few sums, and so a multiprocessor's registers have room for three blocks.
        threads, blocks = power_of_2_from(-(-N * itemsize // VECTOR_BYTES)), 3
        rows = NARROW_THREADS // threads
    elif threads > WARP:
        rows, blocks, most = 1, max(target.registers_per_multiprocessor // (registers * threads), 1), 3
    room = target.shared_bytes_per_block - STATIC_SHARED_BYTES
    full = vectors * threads * VECTOR_BYTES == N * itemsize
    stages = min((room // (blocks * vectors * threads * rows * VECTOR_BYTES) - kept) // matrices, most)
    return vectors, threads, rows, stages, blocks, full


def blocks_of_row(columns: int) -> int:
    """The blocks that share a row of so many columns, 4,096 each: a power of two."""
    return power_of_2_from(-(-columns // 4_096))


def peel(itemsize: int) -> int:
    """By how many columns the vectors that a row lies in may be wider than the row."""
    return VECTOR_BYTES // itemsize - 1


def can_be_peeled(*matrices: torch.Tensor) -> bool:
    """Whether the rows of these matrices, of one shape and dtype, start within vectors as those of a new contiguous one do, and
    whether the vector at the end of each row but the last is all inside its matrix."""
    (M, N), itemsize = matrices[0].shape, matrices[0].itemsize
    strides = [one.stride(0) for one in matrices if M > 1]
    starts = any(one.data_ptr() % VECTOR_BYTES for one in matrices)
    steps = any((stride - N) * itemsize % VECTOR_BYTES or stride < N for stride in strides)
    return NARROWEST_PEELED <= N and not starts and not steps


def fits(
    cluster: bool,
    x: torch.Tensor,
    matrices: int = 2,
    peeled: bool = False,
    values: int = VALUES,
    kept: int = 0,
    registers: int | None = None,
) -> bool:
    """Whether a block, or of wider rows a cluster, can keep the sums of all columns of x, and has room for a row of so many
    such matrices. Still wider rows are for other kernels. values, kept and registers are as for `queue_parameters`."""
    N = x.shape[-1]
    columns = N + peeled * peel(x.itemsize)
    if not x.numel() or cluster != (N > WIDEST_OF_BLOCK):
        return False
    if cluster:
        if columns > WIDEST_OF_CLUSTER or not has(x.device, "clusters"):
            return False
        columns = -(-columns // blocks_of_row(columns))
    return queue_parameters(columns, x.itemsize, target(x.device), matrices, values, kept, registers)[3] > 0


fits_block, fits_cluster = (functools.partial(fits, cluster) for cluster in (False, True))


def cluster_unsupported(case: Case, machine: Machine) -> str | None:
    """Narrower rows are another rung's, and wider ones."""
    uses_cluster = WIDEST_OF_BLOCK < case.shape[-1] <= WIDEST_OF_CLUSTER
    return (needs_feature("clusters") if uses_cluster else needs_compiler)(case, machine)


def queue_launch(
    path: Path,
    name: str,
    x: torch.Tensor,
    matrices: int = 2,
    peeled: bool = False,
    values: int = VALUES,
    kept: int = 0,
    registers: int | None = None,
) -> tuple[Kernel, int, tuple]:
    """A kernel that reads so many matrices, of which x is one, with a block to a row or, of what `fits_cluster`, a cluster;
    G, how many groups of rows are in flight at once; and its grid, block and bytes of dynamic shared memory. values, kept and
    registers are as for `queue_parameters`."""
    M, N = x.shape
    columns = N + peeled * peel(x.itemsize)
    cluster = blocks_of_row(columns) if WIDEST_OF_BLOCK < N else 1
    columns = -(-columns // cluster)
    parameters: tuple[int, ...] = queue_parameters(
        columns, x.itemsize, target(x.device), matrices, values, kept, registers
    )
    vectors, threads, rows, stages, blocks, full = parameters
    slots = blocks * multiprocessors(x.device)
    if cluster > 1:
        # A cluster lies in one part of the GPU, and no part is an exact number of clusters: on an H200 clusters of 8 blocks
        # leave 12 of 132 multiprocessors over. A cluster too many would run alone, after all others.
        slots = max(slots * 10 // 11, cluster)
    G = min(-(-M // rows), slots // cluster)
    # Groups of as many rows each take as many turns, and have fewer sums to write, and to add up.
    turns = -(-M // (rows * G))
    G = -(-M // (rows * turns))
    # The last block of a cluster may have fewer columns than the others, which are full.
    parameters = *parameters[:-1], full and columns * cluster == N
    if peeled:
        parameters = *parameters[:-1], False, True  # not FULL
        if G * rows < M:  # a block has several rows, which are whole vectors apart
            apart, most = VECTOR_BYTES // math.gcd(VECTOR_BYTES, rows * N * x.itemsize), slots // cluster
            G = max(min(-(-G // apart) * apart, most - most % apart), apart)
            # With no more rows than that each has one alone. A cluster begins with its first row: it must have one.
            G = min(G, -(-M // rows))
    shared_bytes = (matrices * stages + kept) * vectors * threads * rows * VECTOR_BYTES
    options = (f"-DCLUSTER={cluster}",)
    launched = kernel(path, name, x.dtype, *parameters, options=options, shared_bytes=shared_bytes)
    return launched, G, ((G * cluster,), (threads, rows), shared_bytes)
