"""A matrix, and how it lies in memory. Read as if it were contiguous, a matrix that is not gives other values, or NaN."""

from __future__ import annotations

import torch

CONTIGUOUS, PART, SPREAD, ONE_VALUE = "contiguous", "columns of a wider one", "transposed and spread", "one value"


def matrix(values: torch.Tensor, layout: str) -> tuple[torch.Tensor, torch.Tensor]:
    """A matrix with these values, M×N, and the memory that it lies in. ONE_VALUE has the first of them everywhere."""
    M, N = values.shape
    if layout == CONTIGUOUS:
        return values, values
    if layout == SPREAD:  # rows lie as far apart as where all is contiguous, and columns further
        memory = values.new_full((N, M, N), float("nan"))
        memory[:, :, 0] = values.T
        return memory[:, :, 0].T, memory
    if layout == PART:
        memory = values.new_full((M, N + 3), float("nan"))
        memory[:, 1 : N + 1] = values
        return memory[:, 1 : N + 1], memory
    memory = values.new_full((M * N,), float("nan"))
    memory[0] = values[0, 0]
    return memory[:1].expand(M, N), memory
