"""Attention as a module over a sequence that several ranks share: by a ring, or by all heads' turns (Ulysses)."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable

from kernels.distributed.collectives import all_to_all
from kernels.distributed.messages import place
from kernels.distributed.ring import ring_attention, zigzag
from kernels.modules import MultiHeadAttention

METHODS = ("ring", "ulysses")


class _AllToAll(torch.autograd.Function):
    """`all_to_all` with its gradient: what came from a rank goes back to it."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return all_to_all(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return all_to_all(gradient)


def ulysses_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False) -> torch.Tensor:
    """Attention over a sequence shared in zig-zag order: each rank gets all positions of some heads, and sends them back.

    Jacobs et al., "DeepSpeed Ulysses" (2023). q, k, v are this rank's share, (B, H, S / ranks, D); so is the output. Sends
    2 · (ranks - 1) messages forward: a rank's heads of q, k and v to each other rank, then its positions of the output; and
    as many in the backward.

    ValueError: a number of heads that is no multiple of the ranks.
    """
    (_, ranks), (heads, share) = place(), q.shape[1:3]
    if heads % ranks:
        raise ValueError(f"num_heads: got {heads}, expected a multiple of the {ranks} ranks for method='ulysses'")
    order = np.concatenate([zigzag(share * ranks, each, ranks) for each in range(ranks)])
    back, ahead = (torch.from_numpy(one).to(q.device) for one in (order, np.argsort(order)))
    # A row for each rank: its heads of q, k and v, at this rank's positions.
    rows = torch.stack([x.unflatten(1, (ranks, -1)) for x in (q, k, v)], dim=1).movedim(2, 0)
    whole = torch.cat(list(_AllToAll.apply(rows.contiguous())), dim=-2).index_select(-2, ahead)
    q, k, v = whole.unbind(1)
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal).index_select(-2, back)
    return torch.cat(list(_AllToAll.apply(torch.stack(out.chunk(ranks, dim=-2)))), dim=1)


class ContextParallelAttention(MultiHeadAttention):
    """Multi-head attention of which each rank has a share of the positions; its state dict is MultiHeadAttention's.

    Weights are the same on all ranks. Each rank's gradients of the weights are those of its positions: their sum over all
    ranks is the gradient, as `DistributedDataParallel` or `all_reduce` makes it.

    Args:
        dim: features of an input, a multiple of num_heads.
        num_heads: heads; for "ulysses" a multiple of the number of ranks.
        method: "ring": keys and values go round; "ulysses": heads are shared while attention is computed.
        causal: whether a position sees itself and earlier ones alone.
        bias: whether the projections have one.

    Shapes: x is (B, S / ranks, dim), the share that `shard(x, 1)` takes of a sequence, in zig-zag order; so is the output.

    ValueError: another method, numbers that do not divide, an x of another shape, a cache, which needs all positions.
    """

    def __init__(self, dim: int, num_heads: int, method: str = "ring", causal: bool = False, bias: bool = True) -> None:
        super().__init__(dim, num_heads, causal, bias=bias)
        if method not in METHODS:
            raise ValueError(f"method: got {method!r}, expected one of {', '.join(METHODS)}")
        self.method = method

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, past: int) -> torch.Tensor:
        if past:
            raise ValueError(
                f"cache: got {past} positions, expected none: a share of a sequence has no past of its own"
            )
        parallel = ring_attention if self.method == "ring" else ulysses_attention
        return parallel(q, k, v, causal=self.causal)
