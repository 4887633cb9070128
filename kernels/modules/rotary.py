"""Rotary position embedding: pairs of features turned by an angle that grows with the position."""

import torch
from torch import nn


class RotaryEmbedding(nn.Module):
    """Turns the features (i, i + D/2) of a head at position p by p · base^(-2i/D), in the half-split order of Llama: Su et al.,
    "RoFormer" (2021). Dot products of turned queries and keys depend on the distance of their positions alone.

    Args:
        head_dim: D, even.
        base: of the angles.

    ValueError: an odd head_dim.
    """

    def __init__(self, head_dim: int, base: float = 10_000.0) -> None:
        super().__init__()
        if head_dim % 2:
            raise ValueError(
                f"head_dim: got {head_dim}, expected an even number of features, which are turned in pairs"
            )
        self.head_dim, self.base = head_dim, base

    def forward(self, x: torch.Tensor, start: int = 0) -> torch.Tensor:
        """x of shape (..., S, D), whose first position is `start`; the angles are computed in float32 at least."""
        exact = torch.promote_types(x.dtype, torch.float32)
        pairs = torch.arange(0, self.head_dim, 2, device=x.device, dtype=exact)
        positions = torch.arange(start, start + x.shape[-2], device=x.device, dtype=exact)
        angles = positions[:, None] * self.base ** (-pairs / self.head_dim)
        cos, sin = angles.cos(), angles.sin()
        first, second = x.to(exact).chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)
