"""Block-sparse attention: each block of queries reads a few blocks of keys, and computes nothing for the others."""

import math

import torch
from torch import nn

CHOICES = ("topk", "random", "local", "learned")


class SparseAttention(nn.Module):
    """Self-attention in which a block of queries gathers a share of the blocks of keys and values.

    How blocks are chosen, for each head and block of queries:
        "topk": by the product of the means of the block's queries and of its keys (Lu et al., "MoBA", 2025).
        "random": drawn, the same at every call of a length (as in Zaheer et al., "Big Bird", 2020).
        "local": the nearest; of two that are equally near the earlier.
        "learned": by a gate, two projections of the means. It is trained straight through: a chosen block counts in full in
            the forward, and by its share of the gate's softmax in the backward (Bengio et al., 2013).
    Causal attention always keeps the queries' own block.

    Args:
        dim: features, a multiple of num_heads.
        num_heads: heads.
        density: the share of blocks that is read, rounded to whole blocks, at least one; in (0, 1].
        choose: one of CHOICES.
        block: positions of a block.
        causal: whether a position sees itself and earlier ones alone; then density is still a share of all blocks.

    Shapes: x is (B, S, dim), S a multiple of block; so is the output.

    ValueError: an argument out of its range, or an x of another shape.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        density: float = 0.1,
        choose: str = "topk",
        block: int = 64,
        causal: bool = False,
    ) -> None:
        super().__init__()
        if dim % num_heads:
            raise ValueError(f"dim: got {dim}, expected a multiple of num_heads, {num_heads}")
        if not 0 < density <= 1:
            raise ValueError(f"density: got {density}, expected more than 0 and at most 1")
        if choose not in CHOICES:
            raise ValueError(f"choose: got {choose!r}, expected one of {', '.join(CHOICES)}")
        if block < 1:
            raise ValueError(f"block: got {block}, expected at least 1")
        self.dim, self.num_heads, self.head_dim = dim, num_heads, dim // num_heads
        self.density, self.choose, self.block, self.causal = density, choose, block, causal
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        if choose == "learned":
            self.gate_q, self.gate_k = (nn.Linear(self.head_dim, self.head_dim, bias=False) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.heads(x)
        chosen, gate = self.chosen(q, k)
        return self.out(self.attend(q, k, v, chosen, gate).transpose(1, 2).reshape(x.shape))

    def heads(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys and values, each B×H×S×D."""
        if x.dim() != 3 or x.shape[-1] != self.dim or not x.shape[1] or x.shape[1] % self.block:
            raise ValueError(f"x: got shape {tuple(x.shape)}, expected (B, a multiple of {self.block}, {self.dim})")
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, self.head_dim)).permute(2, 0, 3, 1, 4)
        return q, k, v

    def kept(self, length: int) -> int:
        """How many blocks of keys a block of queries reads."""
        return max(1, round(self.density * (length // self.block)))

    def chosen(self, q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The chosen blocks of keys, int64 of B×H×blocks×kept, and the learned gate's weights of them, ones with a gradient."""
        q, k = (one.unflatten(2, (-1, self.block)).mean(3) for one in (q, k))
        count, kept = q.shape[2], self.kept(q.shape[2] * self.block)
        at = torch.arange(count, device=q.device)
        if self.choose == "random":
            drawn = torch.rand(self.num_heads, count, count, generator=torch.Generator().manual_seed(count))
            scores = drawn.to(q.device).expand(len(q), -1, -1, -1)
        elif self.choose == "local":
            away = at - at[:, None]
            scores = -(2 * away.abs() + (away > 0)).float().expand(*q.shape[:2], -1, -1)
        else:
            if self.choose == "learned":
                q, k = self.gate_q(q), self.gate_k(k)
            scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        ranks = scores.detach()
        if self.causal:
            ranks = ranks.masked_fill(at > at[:, None], -math.inf).masked_fill(at == at[:, None], math.inf)
            scores = scores.masked_fill(at > at[:, None], -math.inf)
        blocks = ranks.topk(kept).indices
        if self.choose != "learned":
            return blocks, None
        shares = scores.softmax(-1).gather(-1, blocks)
        return blocks, 1 + (shares - shares.detach())  # exactly one

    def attend(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, chosen: torch.Tensor, gate: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Attention of each block of queries to its chosen blocks of keys alone: B×H×S×D."""
        q_blocks, k_blocks, v_blocks = (one.unflatten(2, (-1, self.block)) for one in (q, k, v))
        b, h = (torch.arange(size, device=q.device) for size in q.shape[:2])
        of = b[:, None, None, None], h[:, None, None], chosen
        keys, values = (one[of].flatten(3, 4) for one in (k_blocks, v_blocks))  # B×H×blocks×(kept · block)×D
        scores = q_blocks @ keys.transpose(-2, -1) / math.sqrt(self.head_dim)
        if gate is not None:
            scores = scores + gate.log().repeat_interleave(self.block, dim=-1)[..., None, :]
        if self.causal:
            inside = torch.arange(self.block, device=q.device)
            at = (chosen[..., None] * self.block + inside).flatten(3)[..., None, :]
            position = torch.arange(q.shape[2], device=q.device).view(-1, self.block, 1)
            scores = scores.masked_fill(at > position, -math.inf)
        return (scores.softmax(-1) @ values).flatten(2, 3)

    def cost(self, batch: int, length: int, itemsize: int = 4) -> tuple[int, int]:
        """FLOPs of the two products of `attend`, and bytes of keys and values that it gathers; both grow with density alone."""
        pairs = batch * self.num_heads * length * self.kept(length) * self.block
        return 4 * pairs * self.head_dim, 2 * (pairs // self.block) * self.head_dim * itemsize
