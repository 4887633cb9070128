"""How much of a sum of segments a program or a warp takes."""

import torch

from kernels.machine import multiprocessors

# No GPU has timed others yet.
FEWEST, MOST = 16, 128  # items of a part
PARTS_OF_MULTIPROCESSOR = 32


def items_of_part(items: int, device: torch.device) -> int:
    """Of so many rows and ends of segments, a power of two: so many that every multiprocessor gets its parts."""
    wanted = max(items // (PARTS_OF_MULTIPROCESSOR * multiprocessors(device)), 1)
    return min(max(1 << (wanted.bit_length() - 1), FEWEST), MOST)


def rows_of_part(T: int, device: torch.device) -> int:
    """Of T rows that get gradients, a power of two: few, where all are on their way at a time."""
    return max(items_of_part(T, device) // 2, 8)
