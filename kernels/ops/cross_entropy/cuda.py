"""Level 5: the Python side of cross_entropy.cu. Rows that are 16-byte vectors are read by vectors, others value by value."""

from pathlib import Path

import numpy as np

from kernels.arguments import as_rows, empty_contiguous
from kernels.cuda.rows import VECTOR_BYTES, in_vectors, scalar_threads
from kernels.cuda.template import kernel
from kernels.ops.cross_entropy.native import SIGNATURE
from kernels.rung import rung

FILE = Path(__file__).with_name("cross_entropy.cu")
VECTORS = 4  # of a thread of the backward


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
    size = VECTOR_BYTES // x.itemsize if in_vectors(N, x, as_rows(dx)) else 1
    threads = min(scalar_threads(N // size), 256)
    numbers = x.stride(0), N, ignore_index, np.float32(label_smoothing), np.float32(z_loss), first, classes
    arguments = (dloss.contiguous(), x, target.contiguous(), lse.contiguous(), dx, *numbers)
    grid = M, -(-N // (threads * size * VECTORS))
    kernel(FILE, "cross_entropy_backward", x.dtype, size, VECTORS)(grid, (threads,), arguments)


def blocks(dloss, x, target, lse, *parameters):
    dx = empty_contiguous(x)
    if x.numel():
        by_parts(dloss, as_rows(x), target, lse, dx, parameters, 0, x.shape[-1])
    return dx


FORWARD = (rung(5, "online", online, "one block a row, read once by vectors", FILE),)
BACKWARD = (rung(5, "backward-blocks", blocks, "parts of rows, from the saved lse", FILE),)
