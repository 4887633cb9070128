"""How many of a matrix's rows a GPU has room for: where each gets many threads, and where several programs or blocks, and of
which parts."""

import torch

from kernels.hardware import WARP
from kernels.machine import multiprocessors

VALUES = 16  # of a part that a thread holds
NARROWEST, WIDEST = 1_024, 4_096  # columns of a part: what is worth a block, and what a few warps hold in registers
PARTS_OF_MULTIPROCESSOR = 4
THREADS_AT_ONCE, VALUES_AT_ONCE = 1_024, 16  # threads of a multiprocessor, and values of a row that each of them holds


def few_rows(M: int, device: torch.device, rows_per_multiprocessor: float = 0.5) -> bool:
    """Whether M rows are at most so many for each multiprocessor: a block a row leaves half of them idle, unless it is said
    otherwise."""
    return rows_per_multiprocessor * multiprocessors(device) >= M


def at_once(M: int, N: int, device: torch.device) -> bool:
    """Whether the GPU has room for all of M rows of N at a time. Then each is to be done soon, by as many threads as help;
    where it has not, a row is to leave room for others. A narrow row takes a warp, too."""
    row_values = max(1 << (N - 1).bit_length(), NARROWEST)
    return M * row_values <= multiprocessors(device) * THREADS_AT_ONCE * VALUES_AT_ONCE


def columns_of_part(M: int, N: int, device: torch.device) -> int:
    """The columns of a part of each of M rows of N, a power of two: so many that every multiprocessor gets its parts."""
    parts = max(PARTS_OF_MULTIPROCESSOR * multiprocessors(device) // M, 1)
    wanted = 1 << (-(-N // parts) - 1).bit_length()
    return min(max(wanted, NARROWEST), WIDEST)


def threads_of_part(columns: int) -> int:
    return columns // VALUES


def warps_of_part(columns: int) -> int:
    return columns // (VALUES * WARP)
