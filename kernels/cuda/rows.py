"""What launches over the rows of a matrix go by, and the column sums that end a backward over rows."""

from collections.abc import Sequence
from typing import Any

import torch

from kernels.arguments import as_rows
from kernels.cuda.includes import DEVICE
from kernels.cuda.kernel import Kernel
from kernels.cuda.template import kernel
from kernels.hardware import REFERENCE, WARP
from kernels.machine import multiprocessors
from kernels.vectors import VECTOR_BYTES

COLUMN_SUMS, NORM_COLUMNS = DEVICE / "column_sums.cuh", DEVICE / "norm_columns.cuh"
MOST_THREADS = REFERENCE.threads_per_block
VALUES_OF_FEW = 4  # of a row that a thread holds where all rows are there at a time, unless a pack is more
FEW_ROWS = 64  # that a thread adds up no later than a second kernel would start
NARROW_THREADS = 256  # of a block whose warps have several rows
VALUES = 32  # of a row that a thread holds in registers: enough loads in flight, few enough sums that must meet


def threads_of_row(N: int) -> int:
    """Threads that hold a row of N in registers, VALUES each, in whole warps."""
    return WARP * -(-N // (WARP * VALUES))


def threads_of_few(N: int, size: int) -> int:
    """Threads of a row of N in packs of `size`, where all rows are on the GPU at a time: few values each, in whole warps."""
    return min(max(power_of_2_from(-(-N // max(size, VALUES_OF_FEW))), WARP), MOST_THREADS)


def block_of_rows(threads: int, packs: int) -> tuple[int, int]:
    """Threads of a row of so many packs, for which whole warps are meant, and rows of a block. A row that leaves half of its
    warp without a pack shares it with others."""
    lanes = min(threads, power_of_2_from(packs))
    if lanes < WARP:
        return lanes, NARROW_THREADS // lanes
    return threads, 2 if threads == WARP else 1  # a multiprocessor holds fewer blocks of one warp than it holds warps


def vectors_of_thread(N: int, threads: int, itemsize: int) -> int:
    """Vectors that each of so many threads holds of a row of N."""
    return -(-N * itemsize // (VECTOR_BYTES * threads))


def scalar_threads(N: int) -> int:
    """Threads of a block for rows of N read value by value: the power of two above N/4, at least a warp, at most 512."""
    return min(max(1 << (N // 4).bit_length(), WARP), 512)


def one_block_a_row(
    launched: Kernel, matrices: Sequence[torch.Tensor], others: Sequence[Any], *numbers: Any, floats: int = 0
) -> None:
    """Launches a kernel that reads its rows value by value, with M blocks, if there are rows, and so many floats of dynamic
    shared memory a thread.

    Its parameters are, in this order: the matrices, of M rows of N, from tensors of any layout; the other tensors, among them
    the outputs, contiguous or None; the stride from row to row of each matrix; N; and the numbers.
    """
    rows = [as_rows(one) for one in matrices]
    M, N = rows[0].shape
    if M:
        threads, strides = scalar_threads(N), (one.stride(0) for one in rows)
        launched((M,), (threads,), (*rows, *others, *strides, N, *numbers), shared_mem=4 * floats * threads)


def pack_threads(N: int, size: int) -> int:
    """Threads of a block for rows of N read in packs of `size`: one for each pack, in whole warps, up to a full block."""
    return min(WARP * -(-N // (WARP * size)), MOST_THREADS)


def power_of_2_from(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << (n - 1).bit_length()


def column_sums(partial: torch.Tensor, *sums: torch.Tensor | None) -> None:
    """Adds up what G blocks have for each of N columns, always in the same order.

    partial: float32, shape (G, 1 or 2, N). sums: one or two of shape (N,), of one dtype, or None where a sum is not wanted.
    """
    wanted = next((one for one in sums if one is not None), None)
    if wanted is None:
        return
    G, count, N = partial.shape
    first, second = (*sums, None)[:2]
    launched = kernel(COLUMN_SUMS, "column_sums", wanted.dtype, count)
    launched((-(-count * N // 32),), (32, 32), (partial, first, second, G, N))


def column_blocks(M: int, N: int, multiprocessors: int) -> int:
    """Into how many parts the rows are divided: so many that each multiprocessor gets 16 blocks of 32 columns."""
    return min(max(16 * multiprocessors // -(-N // 32), 1), -(-M // 8))


def column_blocks_of_packs(M: int, N: int, size: int, device: torch.device) -> tuple[tuple[int, int], tuple[int, int]]:
    """Grid and block, of 256 threads, of a kernel whose threads keep `size` columns each and walk down the rows: as many blocks
    one above the other as the multiprocessors have room for, or for few rows one."""
    packs, few = power_of_2_from(-(-N // size)), M <= FEW_ROWS
    # Few rows are not worth a block of their own: it is as high as they are, and as wide as that leaves threads.
    width = min(packs, max(256 // power_of_2_from(M), WARP) if few else WARP)
    across, height = -(-N // (size * width)), 256 // width
    above = 1 if few else min(max(8 * multiprocessors(device) // across, 1), -(-M // height))
    return (across, above), (width, height)


def norm_columns(
    columns: Kernel, dy: torch.Tensor, x: torch.Tensor, statistics: torch.Tensor, *sums: torch.Tensor | None
) -> None:
    """dweight, or dweight and dbias, of a norm over rows, always added up in the same order.

    columns: a kernel that calls norm_columns.cuh's function. dy, x: matrices of shape (M, N). statistics: float32, shape
    (M, 2), what is subtracted from each row and what it is then multiplied by. sums: as `column_sums` has them.
    """
    M, N = x.shape
    G = 1 if M <= FEW_ROWS else column_blocks(M, N, multiprocessors(x.device))
    partial = torch.empty((G, len(sums), N), dtype=torch.float32, device=x.device) if G > 1 else None
    outputs = (*sums, None)[:2] if G == 1 else (None, None)
    columns((-(-N // 32), G), (32, 8), (dy, x, statistics, partial, *outputs, dy.stride(0), x.stride(0), M, N))
    if partial is not None:
        column_sums(partial, *sums)
