"""Level 5: the Python side of reduction.cu."""

from pathlib import Path

import numpy as np

from kernels.arguments import as_rows, empty_contiguous
from kernels.cuda.template import kernel
from kernels.ops.reduction.native import SIGNATURE
from kernels.rung import rung

FILE = Path(__file__).with_name("reduction.cu")
THREADS = 256


def matrix(x, dim):
    """x as M×N with neighbouring columns: over which it is reduced, or down which."""
    return as_rows(x.reshape(x.shape[0], -1) if dim == 0 else x)


def lanes(x, kind, dim):
    y, index = SIGNATURE.empty_outputs(x, kind, dim)
    if not y.numel():
        return y, index
    if not x.numel():  # the sum of nothing, and its mean
        return y.fill_(0.0 if kind == "sum" else np.nan), index
    rows = matrix(x, dim)
    M, N = rows.shape
    count, blocks = (M, -(-N // 32)) if dim == 0 else (N, M)
    high = min(max(count // (8 if dim == 0 else 256), 1), 32)
    scale = np.float32(1 / count if kind == "mean" else 1)
    arguments = (rows, y, index, rows.stride(0), M, N, scale)
    kernel(FILE, "reduction", x.dtype, kind == "max", dim == 0)((blocks,), (32, high), arguments)
    return y, index


def spread(dy, x, index, kind, dim):
    dx = empty_contiguous(x)
    if x.numel():
        M, N = (x.shape[0], x.numel() // x.shape[0]) if dim == 0 else (x.numel() // x.shape[-1], x.shape[-1])
        scale = np.float32(1 / (M if dim == 0 else N) if kind == "mean" else 1)
        arguments = (dy.contiguous(), index.contiguous(), dx, N, scale)
        grid = M, -(-N // THREADS)
        kernel(FILE, "reduction_backward", x.dtype, kind == "max", dim == 0)(grid, (THREADS,), arguments)
    return dx


FORWARD = (rung(5, "lanes", lanes, "neighbouring lanes read neighbouring columns", FILE),)
BACKWARD = (rung(5, "spread", spread, "a thread an element", FILE),)
