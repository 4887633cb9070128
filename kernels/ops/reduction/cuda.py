"""Level 5: the rungs, and the Python side of reduction.cu."""

from pathlib import Path

import numpy as np

from kernels.arguments import empty_contiguous
from kernels.cuda.template import kernel
from kernels.ops.reduction import cuda_packs
from kernels.ops.reduction.arguments import factor, matrix, outputs, sizes
from kernels.rung import rung

FILE = Path(__file__).with_name("reduction.cu")
THREADS = 256


def lanes(x, kind, dim):
    y, index, some = outputs(x, kind, dim)
    if some:
        rows = matrix(x, dim)
        M, N = rows.shape
        count, blocks = (M, -(-N // 32)) if dim == 0 else (N, M)
        high = min(max(count // (8 if dim == 0 else 256), 1), 32)
        arguments = (rows, y, index, rows.stride(0), M, N, np.float32(factor(kind, count)))
        kernel(FILE, "reduction", x.dtype, kind == "max", dim == 0)((blocks,), (32, high), arguments)
    return y, index


def spread(dy, x, index, kind, dim):
    dx = empty_contiguous(x)
    if x.numel():
        M, N = sizes(x, dim)
        scale = np.float32(factor(kind, M if dim == 0 else N))
        arguments = (dy.contiguous(), index.contiguous(), dx, N, scale)
        grid = M, -(-N // THREADS)
        kernel(FILE, "reduction_backward", x.dtype, kind == "max", dim == 0)(grid, (THREADS,), arguments)
    return dx


FORWARD = (
    rung(5, "lanes", lanes, "neighbouring lanes read neighbouring columns", FILE),
    rung(5, "packs", cuda_packs.packs, "several 16-byte loads a thread; few rows shared by blocks", cuda_packs.FILE),
)
BACKWARD = (
    rung(5, "spread", spread, "a thread an element", FILE),
    rung(5, "spread-packs", cuda_packs.spread_packs, "16-byte stores of values kept by threads", cuda_packs.SPREAD),
)
