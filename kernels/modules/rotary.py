"""Rotary position embedding: pairs of features turned by an angle that grows with the position."""

import torch
from torch import nn

from kernels import levels
from kernels.operation import level_number
from kernels.ops.rope import rope


class RotaryEmbedding(nn.Module):
    """Turns the features (i, i + D/2) of a head at position p by p · base^(-2i/D), in the half-split order of Llama: Su et al.,
    "RoFormer" (2021). Dot products of turned queries and keys depend on the distance of their positions alone.

    Args:
        head_dim: D, even.
        base: of the angles.
        level: 1 to 5 or "native", "torchscript", "compiled", "triton", "cuda"; None for native on a CPU or in float64, else
            Triton, by the input. Above 1 a copy of the input is turned by `kernels.rope`.

    ValueError: an odd head_dim, or an unknown level.
    """

    def __init__(self, head_dim: int, base: float = 10_000.0, level: int | str | None = None) -> None:
        super().__init__()
        if level is not None:
            level_number(level)
        if head_dim % 2:
            raise ValueError(
                f"head_dim: got {head_dim}, expected an even number of features, which are turned in pairs"
            )
        self.head_dim, self.base, self.level = head_dim, base, level

    def forward(self, x: torch.Tensor, start: int = 0) -> torch.Tensor:
        """x of shape (..., S, D), whose first position is `start`; the angles are computed in float32 at least."""
        exact = torch.promote_types(x.dtype, torch.float32)
        pairs = torch.arange(0, self.head_dim, 2, device=x.device, dtype=exact)
        positions = torch.arange(start, start + x.shape[-2], device=x.device, dtype=exact)
        angles = positions[:, None] * self.base ** (-pairs / self.head_dim)
        cos, sin = angles.cos(), angles.sin()
        if levels.chosen(self.level, x) == 1:
            first, second = x.to(exact).chunk(2, dim=-1)
            return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)
        heads = x if x.dim() == 4 else x.reshape(1, -1, *x.shape[-2:])
        y = heads.clone(memory_format=torch.contiguous_format)
        rope(y, y.new_empty(len(y), 0, *y.shape[2:]), cos, sin, level=self.level)  # with no keys
        return y.view(x.shape)

    def extra_repr(self) -> str:
        return f"{self.head_dim}, base={self.base:g}, level={self.level!r}"
