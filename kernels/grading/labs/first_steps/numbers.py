"""What the drills compute on, and how they are launched."""

from __future__ import annotations

import torch

ZERO_TIMES_INFINITY = "0 times infinity is NaN, so a product with a 0 must not be left out."


def numbers(random: torch.Generator, n: int) -> torch.Tensor:
    """n odd multiples of 1/8 below 10, of either sign: no integer holds one, and sums of products are exact in any order.
    Among them a zero, in the middle, and two equal neighbours, for kernels that take these for something of their own."""
    sign = 1 - 2 * torch.randint(0, 2, (n,), generator=random)
    found = sign * (2 * torch.randint(0, 40, (n,), generator=random) + 1) / 8
    if n > 4:  # fewer would be left out without a trace
        found[n // 4] = found[n // 4 + 1]
        found[n // 2] = 0
    return found


def blocks(n: int, threads: int) -> int:
    """Blocks of so many threads for n elements, rounded up."""
    return -(-n // threads)
