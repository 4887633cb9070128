"""What the drills compute on, and how they are launched."""

from __future__ import annotations

import torch


def whole(random: torch.Generator, *shape: int) -> torch.Tensor:
    """Whole numbers as floats, none of them 0, which would hide that something was left out."""
    numbers = torch.randint(1, 10, shape, generator=random)
    return (numbers * (1 - 2 * torch.randint(0, 2, shape, generator=random))).float()


def blocks(n: int, threads: int) -> int:
    """Blocks of so many threads for n elements, rounded up."""
    return -(-n // threads)
