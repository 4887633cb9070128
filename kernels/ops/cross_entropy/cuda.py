"""Level 5: the Python side of cross_entropy.cu. Forward, a row is read in packs of values,
as wide as all rows' alignment allows; backward, all rows are one row of packs."""

from pathlib import Path

import numpy as np

from kernels.arguments import as_rows, empty_contiguous
from kernels.cuda.rows import VALUES_OF_FEW, pack_size, scalar_threads
from kernels.cuda.template import kernel
from kernels.machine import multiprocessors
from kernels.ops.cross_entropy.native import SIGNATURE
from kernels.row_parts import THREADS_AT_ONCE
from kernels.rung import rung

FILE = Path(__file__).with_name("cross_entropy.cu")
THREADS, PACKS = 256, 2  # of a block of the backward, and of its thread where there are many
ROW_BYTES = 24  # of shared memory


def by_rows(x, target, loss, lse, ignore_index, label_smoothing, z_loss, scale=None, dx=None) -> None:
    """Writes loss and, unless it is None, lse; into dx, which may be a contiguous matrix x itself, the gradient of the losses'
    sum times scale, a float32 on the GPU: for a caller who knows it beforehand, as one of a mean does."""
    if not x.numel():
        return
    x = as_rows(x)
    M, N = x.shape
    size = pack_size(N, x, None if dx is None else as_rows(dx))
    parameters = x.stride(0), N, ignore_index, np.float32(label_smoothing), np.float32(z_loss)
    arguments = (x, target.contiguous(), loss, lse, scale, dx, *parameters)
    kernel(FILE, "cross_entropy_online", x.dtype, size)((M,), (scalar_threads(N // size),), arguments)


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


FORWARD = (rung(5, "online", online, "one block a row, read once by vectors", FILE),)
BACKWARD = (rung(5, "backward-blocks", blocks, "rows as one, in equal parts, from the saved lse", FILE),)
