"""Level 5: the Python side of cross_entropy.cu. Forward, rows that are 16-byte vectors are read by
vectors, others value by value; backward, all rows are one row of vectors."""

from pathlib import Path

import numpy as np

from kernels.arguments import as_rows, empty_contiguous
from kernels.cuda.rows import VECTOR_BYTES, in_vectors, scalar_threads
from kernels.cuda.template import kernel
from kernels.machine import multiprocessors
from kernels.ops.cross_entropy.native import SIGNATURE
from kernels.rung import rung

FILE = Path(__file__).with_name("cross_entropy.cu")
THREADS, VECTORS = 256, 2  # of a block of the backward, and of its thread where there are many


def by_rows(x, target, loss, lse, ignore_index, label_smoothing, z_loss, scale=None, dx=None) -> None:
    """Writes loss and, unless it is None, lse; into dx, which may be a contiguous matrix x itself, the gradient of the losses'
    sum times scale, a float32 on the GPU: for a caller who knows it beforehand, as one of a mean does."""
    if not x.numel():
        return
    x = as_rows(x)
    M, N = x.shape
    size = VECTOR_BYTES // x.itemsize if in_vectors(N, x, None if dx is None else as_rows(dx)) else 1
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
    together = stride == N and (x.data_ptr() | out.data_ptr()) % VECTOR_BYTES == 0  # all rows, one behind the other
    size = VECTOR_BYTES // x.itemsize if together or in_vectors(N, x, out) else 1
    few = multiprocessors(x.device) * THREADS * size >= M * N  # then by as many blocks as there are
    vectors = 1 if few else VECTORS
    numbers = stride, M, N, ignore_index, np.float32(label_smoothing), np.float32(z_loss), first, classes
    arguments = (dloss.contiguous(), x, target.contiguous(), lse.contiguous(), dx, *numbers)
    grid = -(-M * N // (THREADS * size * vectors))
    kernel(FILE, "cross_entropy_backward", x.dtype, size, vectors)((grid,), (THREADS,), arguments)


def blocks(dloss, x, target, lse, *parameters):
    dx = empty_contiguous(x)
    if x.numel():
        by_parts(dloss, as_rows(x), target, lse, dx, parameters, 0, x.shape[-1])
    return dx


FORWARD = (rung(5, "online", online, "one block a row, read once by vectors", FILE),)
BACKWARD = (rung(5, "backward-blocks", blocks, "rows as one, in equal parts, from the saved lse", FILE),)
