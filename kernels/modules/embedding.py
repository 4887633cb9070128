"""Embedding as a module, in place of PyTorch's own."""

from __future__ import annotations

import torch
from torch import nn

from kernels.operation import level_number
from kernels.ops.embedding import embedding


class Embedding(nn.Embedding):
    """`torch.nn.Embedding` computed at a level; same parameter, initialisation and state dict.

    Args:
        num_embeddings, embedding_dim: rows and columns of the weight.
        padding_idx: the number of a row, of zeros at first, that gets no gradient; from the end where it is negative.
        max_norm, norm_type, scale_grad_by_freq, sparse: PyTorch's, of which only the defaults are taken.
        device, dtype: of the weight.
        level: as for `LayerNorm`.

    Shapes: the input is int64, (...), the output (..., embedding_dim).

    Raises:
        ValueError: an unknown level, or an option that is not taken, when made.
        TypeError, ValueError: when called, as `kernels.embedding`.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: torch.Tensor | None = None,
        _freeze: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        level: int | str | None = None,
    ) -> None:
        for name, value in (("max_norm", max_norm), ("scale_grad_by_freq", scale_grad_by_freq), ("sparse", sparse)):
            if value:
                raise ValueError(
                    f"{name}: got {value!r}, expected PyTorch's default; use torch.nn.Embedding for others"
                )
        if level is not None:
            level_number(level)
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, _weight=_weight, _freeze=_freeze, device=device, dtype=dtype
        )
        self.level = level

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return embedding(input, self.weight, self.padding_idx, self.level)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, level={self.level!r}"
