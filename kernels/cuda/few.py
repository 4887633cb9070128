"""Backward kernels of norms for so few rows that all are on the GPU at a time.

All of a row is asked for at once, and stays in registers. A matrix that one block has room for is its own: then its sums of
columns are all, and there is no second kernel.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from kernels.arguments import empty_contiguous
from kernels.cuda.rows import column_sums, in_vectors, pack_size, power_of_2_from
from kernels.cuda.template import kernel
from kernels.hardware import WARP
from kernels.machine import multiprocessors

THREADS, VALUES = 512, 16  # of a block, and of each matrix that a thread holds; not timed yet
MOST_ROWS = 8  # that a thread has: 16 narrow ones take more registers than it has
VALUES_OF_ROW = 8  # that a thread has, where there are threads for that


def few_parameters(M: int, N: int, size: int) -> tuple[tuple[int, int, int], tuple[int, int]]:
    """PACKS, ROWS and LANES of a kernel for M rows of N in packs of `size`, and its block."""
    packs = -(-N // size)
    lanes, most = min(power_of_2_from(packs), WARP), THREADS // WARP
    packs_of_thread = min(power_of_2_from(-(-packs // lanes)), max(VALUES_OF_ROW // size, 1))
    while packs > most * lanes * packs_of_thread:
        packs_of_thread *= 2
    threads = lanes * -(-packs // (lanes * packs_of_thread))
    rows = min(-(-M * lanes // WARP) * WARP // lanes, THREADS // threads)  # whole warps
    rows_of_thread = power_of_2_from(-(-M // rows))
    if rows_of_thread > MOST_ROWS or rows_of_thread * packs_of_thread * size > VALUES:
        rows_of_thread = 1
    return (packs_of_thread, rows_of_thread, lanes), (threads, rows)


def few_gradients(
    path: Path,
    matrices: tuple[torch.Tensor, ...],
    weight: torch.Tensor | None,
    eps: float,
    sums: tuple[torch.Tensor | None, ...],
    like_x: int = 1,
) -> tuple[Any, ...] | None:
    """The gradients by the kernel that path is named after; None of matrices that are not for it.

    First so many like x, which is the last of the matrices that it reads, then one like each of sums, or None where that is.
    One block has all rows; rows that are not whole vectors may have several, up to one a multiprocessor.
    """
    M, N = matrices[-1].shape
    if not M * N or max(M, N) > THREADS * VALUES:
        return None
    size = pack_size(N, *matrices, weight)
    parameters, block = few_parameters(M, N, size)
    G = -(-M // (parameters[1] * block[1]))
    if G > 1 and (in_vectors(N, *matrices, weight) or multiprocessors(matrices[-1].device) < G):
        return None
    outputs = [empty_contiguous(matrices[-1]) for _ in range(like_x)]
    columns = [None if one is None else empty_contiguous(one) for one in sums]
    partial = matrices[-1].new_empty((G, len(sums), N), dtype=torch.float32) if G > 1 else None
    strides = (one.stride(0) for one in matrices)
    arguments = (*matrices, weight, *outputs, *columns, partial, *strides, M, N, np.float32(eps))
    kernel(path, path.stem, matrices[-1].dtype, size, *parameters)((G,), block, arguments)
    if partial is not None:
        column_sums(partial, *columns)
    return *outputs, *columns
