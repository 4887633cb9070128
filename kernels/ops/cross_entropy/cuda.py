"""Level 5: the Python side of cross_entropy.cu. Forward, a row is read in 16-byte vectors wherever it starts, all at once
unless it is wide; backward, all rows are one row of packs, as wide as all rows' alignment allows."""

from pathlib import Path

import numpy as np

from kernels.arguments import as_rows, empty_contiguous
from kernels.cuda.rows import MOST_THREADS, NARROW_THREADS, VALUES_OF_FEW
from kernels.cuda.template import kernel
from kernels.hardware import WARP
from kernels.machine import multiprocessors
from kernels.ops.cross_entropy.native import SIGNATURE
from kernels.row_parts import THREADS_AT_ONCE, at_once
from kernels.rung import rung
from kernels.vectors import VECTOR_BYTES, pack_size

FILE = Path(__file__).with_name("cross_entropy.cu")
THREADS, PACKS = 256, 2  # of a block, and of a thread of the backward where there are many
ROW_BYTES = 24  # of shared memory
VECTORS = 4  # of a thread at most, all on their way at once
LANES = 16  # of a row at least: one for each value beside its vectors
# For an exponential below the smallest normal float, which changes no sum, 0 will do: that spares its scaling.
TINY = ("-ftz=true",)


def by_rows(x, target, loss, lse, ignore_index, label_smoothing, z_loss, scale=None, dx=None) -> None:
    """Writes loss and, unless it is None, lse; into dx, which may be a contiguous matrix x itself, the gradient of the losses'
    sum times scale, a float32 on the GPU: for a caller who knows it beforehand, as one of a mean does."""
    if not x.numel():
        return
    x = as_rows(x)
    M, N = x.shape
    vector = VECTOR_BYTES // x.itemsize
    parameters = N, ignore_index, np.float32(label_smoothing), np.float32(z_loss)
    each, threads, rows = short_rows(N, vector, at_once(M, N, x.device))
    if dx is None and each <= VECTORS:
        launched = kernel(FILE, "cross_entropy_short", x.dtype, each, threads, options=TINY)
        launched((-(-M // rows),), (threads, rows), (x, target.contiguous(), loss, lse, x.stride(0), M, *parameters))
        return
    size = vector if dx is None else pack_size(N, x, as_rows(dx))
    arguments = (x, target.contiguous(), loss, lse, scale, dx, x.stride(0), *parameters)
    kernel(FILE, "cross_entropy_online", x.dtype, size, options=TINY)((M,), (THREADS,), arguments)


def short_rows(N: int, size: int, soon: bool) -> tuple[int, int, int]:
    """Vectors of a thread, threads of a row of N in vectors of `size`, and rows of a block. Where all rows are there at once a
    thread has one vector, and a block a warp at least; else four."""
    vectors = N // size
    wanted = vectors if soon else -(-vectors // VECTORS)
    threads = LANES if wanted <= LANES else min(WARP * -(-wanted // WARP), MOST_THREADS if soon else MOST_THREADS // 2)
    rows = 1 if threads > WARP else (WARP if soon else NARROW_THREADS) // threads
    return max(-(-vectors // threads), 1), threads, rows


def online(x, target, *parameters):
    loss, lse = SIGNATURE.empty_outputs(x)
    by_rows(x, target, loss, lse, *parameters)
    return loss, lse


def by_parts(dloss, x, target, lse, dx, parameters, first: int, classes: int) -> None:
    """Writes dx of a matrix x, which has the columns of so many classes from the first on; dx may be the memory of x."""
    (M, N), (ignore_index, label_smoothing, z_loss) = x.shape, parameters
    stride, out = x.stride(0) if M > 1 else N, as_rows(dx)
    # All rows, one behind the other, are one; but a pack has the values of two at most.
    columns, shape = (0, (1, -1)) if stride == N else (N, (M, N))
    size, packs = min(pack_size(columns, x.view(shape), out.view(shape)), 1 << N.bit_length() - 1), PACKS
    if VALUES_OF_FEW * THREADS_AT_ONCE * multiprocessors(x.device) >= M * N:
        size, packs = min(size, VALUES_OF_FEW), 1
    values, smoothing = THREADS * size * packs, np.float32(label_smoothing)
    numbers = stride, M, N, ignore_index, smoothing, smoothing / np.float32(classes), np.float32(z_loss), first
    arguments = (dloss.contiguous(), x, target.contiguous(), lse.contiguous(), dx, *numbers)
    rows_of_block = min(-(-values // N) + 1, M)
    launched = kernel(FILE, "cross_entropy_backward", x.dtype, size, packs)
    launched((-(-M * N // values),), (THREADS,), arguments, shared_mem=ROW_BYTES * rows_of_block)


def blocks(dloss, x, target, lse, *parameters):
    dx = empty_contiguous(x)
    if x.numel():
        by_parts(dloss, as_rows(x), target, lse, dx, parameters, 0, x.shape[-1])
    return dx


FORWARD = (rung(5, "online", online, "a row is read once, by vectors, a narrow one by some lanes", FILE),)
BACKWARD = (rung(5, "backward-blocks", blocks, "rows as one, in equal parts, from the saved lse", FILE),)
