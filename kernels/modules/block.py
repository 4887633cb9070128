"""The transformer block, pre-norm: attention and an MLP, each added to what it was given."""

import math

import torch
from torch import nn

from kernels.modules.attention import GroupedQueryAttention, NaiveAttention
from kernels.modules.mlp import MLP
from kernels.modules.norms import LayerNorm


class TransformerBlock(nn.Module):
    """x + attention(norm(x)), then that + mlp(norm(that)).

    Args:
        dim, num_heads, num_kv_heads, causal, rotary: of the attention; num_kv_heads is num_heads unless said.
        level: of the norms, of the attention and of the MLP's GELU, as `kernels.layer_norm` takes it; None: the attention is
            PyTorch's own.

    Shapes: x is (B, S, dim), so is the output.
    """

    attention_type: type[GroupedQueryAttention] = GroupedQueryAttention

    def __init__(
        self,
        dim: int,
        num_heads: int,
        num_kv_heads: int | None = None,
        causal: bool = False,
        rotary: bool = False,
        level: int | str | None = None,
    ) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = LayerNorm(dim, level=level), LayerNorm(dim, level=level)
        self.attention = self.attention_type(dim, num_heads, num_kv_heads or num_heads, causal, rotary, level=level)
        self.mlp = MLP(dim, level=level)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class NaiveBlock(TransformerBlock):
    """The same block from the formulas alone: loops over heads and positions, norms and GELU an operator at a time."""

    attention_type = NaiveAttention

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(_layer_norm(x, self.attention_norm))
        h = self.mlp.up(_layer_norm(x, self.mlp_norm))
        return x + self.mlp.down(0.5 * h * (1 + torch.erf(h / math.sqrt(2))))


def _layer_norm(x: torch.Tensor, norm: nn.LayerNorm) -> torch.Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + norm.eps) * norm.weight + norm.bias
