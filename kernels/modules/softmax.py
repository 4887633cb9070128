"""Softmax as a module, in place of PyTorch's own."""

from __future__ import annotations

import torch
from torch import nn

from kernels.operation import level_number
from kernels.ops.softmax import softmax


class Softmax(nn.Softmax):
    """`torch.nn.Softmax` computed at a level. Another dimension than the last is brought there, which may copy the input.

    Args:
        dim: over which the results sum to one. PyTorch's None, a dimension chosen by how many there are, is deprecated
            there and refused here.
        level: as for `LayerNorm`.

    Raises:
        ValueError: dim is None, or an unknown level, when made.
        TypeError, ValueError, IndexError: when called, as `kernels.softmax`; the input has no such dimension.
    """

    def __init__(self, dim: int | None = None, level: int | str | None = None) -> None:
        if dim is None:
            raise ValueError("dim: got None, expected the number of a dimension, such as -1")
        if level is not None:
            level_number(level)
        super().__init__(dim)
        self.dim: int = dim
        self.level = level

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        if self.dim in (-1, input.dim() - 1):
            return softmax(input, self.level)
        return softmax(input.transpose(self.dim, -1), self.level).transpose(self.dim, -1)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, level={self.level!r}"
