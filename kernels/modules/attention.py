"""Attention over several heads: one product for queries, keys and values, one call for all heads; and what that replaces."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from kernels.arguments import positive
from kernels.modules.rotary import RotaryEmbedding
from kernels.operation import level_number
from kernels.ops.attention import attention

Cache = tuple[torch.Tensor, torch.Tensor]
"""Keys and values of the positions before, each B×H×S×D."""


class GroupedQueryAttention(nn.Module):
    """Self-attention in which several query heads share a key and a value head: Ainslie et al., "GQA" (2023).

    Args:
        dim: features of an input, a multiple of num_heads.
        num_heads: query heads, a multiple of num_kv_heads.
        num_kv_heads: heads of keys and values; num_heads of them is multi-head attention, one is multi-query.
        causal: whether a position sees itself and earlier ones alone.
        rotary: whether queries and keys are turned by their positions.
        bias: whether the projections have one.
        level: of the attention between the projections, as `kernels.attention` takes it; None: PyTorch's own.

    Shapes: x is (B, S, dim), so is the output.

    ValueError: numbers below 1 or that do not divide, an unknown level, or an x of another shape.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        num_kv_heads: int,
        causal: bool = False,
        rotary: bool = False,
        bias: bool = True,
        level: int | str | None = None,
    ) -> None:
        super().__init__()
        if level is not None:
            level_number(level)
        self.level = level
        positive(dim=dim, num_heads=num_heads, num_kv_heads=num_kv_heads)
        if dim % num_heads:
            raise ValueError(f"num_heads: got {num_heads}, expected a divisor of dim, which is {dim}")
        if num_heads % num_kv_heads:
            raise ValueError(f"num_kv_heads: got {num_kv_heads}, expected a divisor of num_heads, which is {num_heads}")
        self.dim, self.num_heads, self.num_kv_heads, self.causal = dim, num_heads, num_kv_heads, causal
        self.head_dim = dim // num_heads
        self.qkv = nn.Linear(dim, (num_heads + 2 * num_kv_heads) * self.head_dim, bias)
        self.out = nn.Linear(dim, dim, bias)
        self.rotary = RotaryEmbedding(self.head_dim) if rotary else None

    def forward(self, x: torch.Tensor, cache: Cache | None = None) -> torch.Tensor:
        return self.with_cache(x, cache)[0]

    def with_cache(self, x: torch.Tensor, cache: Cache | None = None) -> tuple[torch.Tensor, Cache]:
        """The output, and the keys and values of all positions so far, for the positions that come next."""
        q, k, v = self.heads(x)
        past = 0 if cache is None else cache[0].shape[-2]
        if self.rotary is not None:
            q, k = self.rotary(q, past), self.rotary(k, past)
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=-2), torch.cat([cache[1], v], dim=-2)
        y = self.attend(q, k, v, past)
        return self.out(y.transpose(1, 2).reshape(x.shape)), (k, v)

    def heads(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys and values, each B×H×S×D, from one product."""
        if x.dim() != 3 or x.shape[-1] != self.dim:
            raise ValueError(f"x: got shape {tuple(x.shape)}, expected (B, S, {self.dim})")
        split = self.qkv(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
        q, k, v = split.split([self.num_heads, self.num_kv_heads, self.num_kv_heads], dim=1)
        return q, k, v

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, past: int) -> torch.Tensor:
        if self.level is not None:
            return attention(q, k, v, causal=self.causal, level=self.level)[0]
        mask = None
        if self.causal and past:  # torch's is_causal aligns the first query with the first key
            mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril(past)
        shared = self.num_kv_heads < self.num_heads
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=self.causal and not past, enable_gqa=shared)


class MultiHeadAttention(GroupedQueryAttention):
    """Self-attention with as many heads of keys and values as of queries; see GroupedQueryAttention."""

    def __init__(
        self,
        dim: int,
        num_heads: int,
        causal: bool = False,
        rotary: bool = False,
        bias: bool = True,
        level: int | str | None = None,
    ) -> None:
        super().__init__(dim, num_heads, num_heads, causal, rotary, bias, level)


class NaiveAttention(GroupedQueryAttention):
    """The same attention as it is often written: three products, and a loop over heads and positions."""

    def heads(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        sizes = [heads * self.head_dim for heads in (self.num_heads, self.num_kv_heads, self.num_kv_heads)]
        weights = self.qkv.weight.split(sizes)
        biases = self.qkv.bias.split(sizes) if self.qkv.bias is not None else [None] * 3
        q, k, v = (
            F.linear(x, weight, bias).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for weight, bias in zip(weights, biases, strict=True)
        )
        return q, k, v

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, past: int) -> torch.Tensor:
        heads = []
        for head in range(self.num_heads):
            shared = head * self.num_kv_heads // self.num_heads
            rows = []
            for position in range(q.shape[-2]):
                seen = past + position + 1 if self.causal else k.shape[-2]
                keys, values = k[:, shared, :seen], v[:, shared, :seen]
                scores = torch.einsum("bd,bsd->bs", q[:, head, position], keys) / math.sqrt(self.head_dim)
                rows.append(torch.einsum("bs,bsd->bd", scores.softmax(-1), values))
            heads.append(torch.stack(rows, dim=-2))
        return torch.stack(heads, dim=1)
