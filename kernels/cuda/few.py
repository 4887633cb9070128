"""Backward kernels of norms for so few rows that all are on the GPU at a time.

All of a row is asked for at once, and stays in registers. A small matrix has one block: then its sums of columns are all, and
there is no second kernel. Of others each multiprocessor takes its rows, since one alone would be busy with instructions.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from kernels.arguments import empty_contiguous
from kernels.cuda.rows import column_sums, power_of_2_from
from kernels.cuda.template import kernel
from kernels.hardware import WARP
from kernels.machine import multiprocessors
from kernels.vectors import in_vectors, pack_size

# By what norms took on an H200 (book/results/tried/few_rows.json and peeled_rows.json).
THREADS, VALUES = 512, 64  # of a block, and of all matrices that a thread holds: more would not stay in registers
WIDEST = 8_192  # columns, of which a thread holds 16
ALONE, WIDEST_OF_PAIR = 4_096, 4_096  # elements of a matrix that has one block, and columns of two rows that have
MOST_ROWS = 8  # of a thread: 16 narrow ones take more registers than it has
# Of a multiprocessor: twice as many of rows that are no whole vectors, since it takes a queue longer to begin with those.
ROWS, PEELED_ROWS = 8, 16
VALUES_OF_ROW = 4  # that a thread has, where there are threads for that: little code, which is soon done


def few_parameters(N: int, size: int, wanted: int, matrices: int = 2) -> tuple[tuple[int, int, int], tuple[int, int]]:
    """PACKS, ROWS and LANES of a kernel for rows of N in packs of `size` of so many matrices, so many rows a block, and its
    block."""
    packs = -(-N // size)
    lanes, most = min(power_of_2_from(packs), WARP), THREADS // WARP
    packs_of_thread = min(power_of_2_from(-(-packs // lanes)), max(VALUES_OF_ROW // size, 1))
    while packs > most * lanes * packs_of_thread:
        packs_of_thread *= 2
    threads = lanes * -(-packs // (lanes * packs_of_thread))
    rows = min(-(-wanted * lanes // WARP) * WARP // lanes, THREADS // threads)  # whole warps
    rows_of_thread = min(-(-wanted // rows), VALUES // (matrices * packs_of_thread * size), MOST_ROWS)
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
    """
    M, N = matrices[-1].shape
    most = multiprocessors(matrices[-1].device)
    if not M * N or N > WIDEST or most * (ROWS if in_vectors(N, *matrices, weight) else PEELED_ROWS) < M:
        return None
    size = min(pack_size(N, *matrices, weight), VALUES_OF_ROW)
    alone = M * N <= ALONE or (M <= 2 and N <= WIDEST_OF_PAIR)
    wanted = M if alone else -(-M // most)
    parameters, block = few_parameters(N, size, wanted, len(matrices))
    G = -(-M // (parameters[1] * block[1]))
    if most < G:
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
