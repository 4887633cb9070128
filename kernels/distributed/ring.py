"""Ring attention: each rank keeps its queries, and keys and values go round (Liu et al., 2023, section 3).

What a rank has so far, and what the next keys add, are merged by the logarithms of the sums of their exponentials. With a
causal mask, the first positions see few keys and the last ones all: in zig-zag order each rank has some of both.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from kernels.distributed.messages import exchange, place, start_exchange


def contiguous(length: int, rank: int, ranks: int) -> np.ndarray:
    """The positions that a rank has of a sequence: an equal run of neighbours. (length / ranks,), int64."""
    return np.array_split(np.arange(length), ranks)[rank]


def zigzag(length: int, rank: int, ranks: int) -> np.ndarray:
    """The positions that a rank has of a sequence of 2 · ranks runs: one from the front and one as far from the end.

    With a causal mask all ranks compute as many scores. (length / ranks,), int64, ascending.
    """
    runs = np.array_split(np.arange(length), 2 * ranks)
    return np.concatenate([runs[rank], runs[2 * ranks - 1 - rank]])


PLACINGS = {"contiguous": contiguous, "zigzag": zigzag}


def shard(x: torch.Tensor, dim: int, placing: str = "zigzag") -> torch.Tensor:
    """This rank's share of a whole sequence, whose positions are dimension `dim` of x."""
    rank, ranks = place()
    multiple = 2 * ranks if placing == "zigzag" else ranks
    if x.shape[dim] % multiple:
        raise ValueError(f"x: got {x.shape[dim]} positions, expected a multiple of {multiple} for {ranks} ranks")
    positions = _placed(placing)(x.shape[dim], rank, ranks)
    return x.index_select(dim, torch.from_numpy(positions).to(x.device))


class Tile(NamedTuple):
    """Queries and keys whose scores are computed together, and which of these count; None: all."""

    rows: slice
    columns: slice
    mask: torch.Tensor | None


def tiles(rows: np.ndarray, columns: np.ndarray, causal: bool, block: int) -> Iterator[Tile]:
    """What has to be computed of the scores of queries and keys at these positions, at most `block` keys at a time.

    Positions ascend. Each row of a tile counts with one column at least.
    """
    for start in range(0, len(columns), block):
        keys = columns[start : start + block]
        first = int(np.searchsorted(rows, keys[0])) if causal else 0
        queries = rows[first:]
        if len(queries):
            hides = causal and queries[0] < keys[-1]
            mask = torch.from_numpy(queries[:, None] >= keys) if hides else None
            yield Tile(slice(first, len(rows)), slice(start, start + len(keys)), mask)


def merge(
    out: torch.Tensor, lse: torch.Tensor, other: torch.Tensor, other_lse: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention to some keys (…, S, D), with its log-sum-exp (…, S), and attention to others: attention to both."""
    both = torch.logaddexp(lse, other_lse)
    return out * (lse - both).exp()[..., None] + other * (other_lse - both).exp()[..., None], both


def _scores(q: torch.Tensor, k: torch.Tensor, scale: float, mask: torch.Tensor | None) -> torch.Tensor:
    scores = (q @ k.mT) * scale
    return scores if mask is None else scores.masked_fill(~mask.to(q.device), -math.inf)


def _attend(q: torch.Tensor, kv: torch.Tensor, scale: float, mask: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
    """Attention of one tile, and its log-sum-exp."""
    scores = _scores(q, kv[0], scale, mask)
    return scores.softmax(-1) @ kv[1], scores.logsumexp(-1)


def _attend_backward(
    q: torch.Tensor, kv: torch.Tensor, scale: float, mask: torch.Tensor | None, *rows: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """The gradients of one tile's q, k and v. Of its rows: the gradient of the output, the log-sum-exp over all keys, and
    the sum of the output times its gradient (Dao et al., 2022, appendix B.2)."""
    gradient, lse, delta = rows
    weights = (_scores(q, kv[0], scale, mask) - lse[..., None]).exp()
    dscores = weights * (gradient @ kv[1].mT - delta[..., None]) * scale
    return dscores @ kv[0], dscores.mT @ q, weights.mT @ gradient


class _RingAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *how: Any) -> torch.Tensor:
        causal, scale, placing, block = how
        rank, ranks = place()
        positions = [placing(q.shape[-2] * ranks, each, ranks) for each in range(ranks)]
        wide = torch.promote_types(q.dtype, torch.float32)
        out, lse = torch.zeros_like(q, dtype=wide), q.new_full(q.shape[:-1], -math.inf, dtype=wide)
        kv = torch.stack([k, v])
        for step in range(ranks):
            # The next keys come while these are computed with.
            arrived = start_exchange(kv, *_neighbours()) if step < ranks - 1 else None
            for tile in tiles(positions[rank], positions[(rank - step) % ranks], causal, block):
                here, kv_there = (..., tile.rows, slice(None)), kv[..., tile.columns, :].to(wide)
                found, found_lse = _attend(q[here].to(wide), kv_there, scale, tile.mask)
                out[here], lse[..., tile.rows] = merge(out[here], lse[..., tile.rows], found, found_lse)
            kv = arrived() if arrived else kv
        out = out.to(q.dtype)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.how, ctx.positions = how, positions
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        q, k, v, out, lse = ctx.saved_tensors
        (causal, scale, _, block), positions = ctx.how, ctx.positions
        rank, ranks = place()
        wide = lse.dtype
        delta = (gradient.to(wide) * out.to(wide)).sum(-1)
        dq, kv = torch.zeros_like(q, dtype=wide), torch.stack([k, v])
        own = travelling = kv.new_zeros((), dtype=wide)
        for step in range(ranks):
            arrived = start_exchange(kv, *_neighbours()) if step < ranks - 1 else None
            found = torch.zeros_like(kv, dtype=wide)
            for tile in tiles(positions[rank], positions[(rank - step) % ranks], causal, block):
                here, kv_there = (..., tile.rows, slice(None)), kv[..., tile.columns, :].to(wide)
                rows = gradient[here].to(wide), lse[..., tile.rows], delta[..., tile.rows]
                dq_found, *dkv_found = _attend_backward(q[here].to(wide), kv_there, scale, tile.mask, *rows)
                dq[here] += dq_found
                for one, more in zip(found, dkv_found, strict=True):
                    one[..., tile.columns, :] += more
            if step == 0:
                own = found  # stays at home; what others add to it comes last
            else:
                # A sum over the ranks that these keys have been at goes on to the next, one step behind them.
                travelling = exchange(found + travelling, *_neighbours())
            kv = arrived() if arrived else kv
        dk, dv = own + travelling
        return dq.to(q.dtype), dk.to(k.dtype), dv.to(v.dtype), None, None, None, None


def ring_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    scale: float | None = None,
    placing: str = "zigzag",
    block: int = 512,
) -> torch.Tensor:
    """Attention over a sequence of which each rank has a share, with gradients for all three.

    Args:
        q, k, v: this rank's share, (B, H, S / ranks, D), any floating dtype; the same shape on all ranks.
        causal: whether a position sees itself and earlier ones alone.
        scale: of the scores; None for 1 / √D.
        placing: "zigzag" or "contiguous": which positions a rank has. `shard` takes them out of a sequence.
        block: keys at a time. The largest temporary is (B, H, S / ranks, block), in float32 at least.

    Returns this rank's share of the output, in q's dtype. Sends ranks - 1 messages of k and v forward; in the backward as
    many again, and as many of their gradients in float32, or in float64.

    ValueError: shapes that differ, a share that cannot be placed, a placing or block that does not exist.
    """
    if q.ndim != 4 or not q.shape == k.shape == v.shape:
        raise ValueError(f"q, k, v: got {[tuple(x.shape) for x in (q, k, v)]}, expected one shape (B, H, S / ranks, D)")
    if block < 1:
        raise ValueError(f"block: got {block}, expected at least 1 key")
    if placing == "zigzag" and q.shape[-2] % 2:
        raise ValueError(f"q: got {q.shape[-2]} positions, expected an even number, for two runs of each rank")
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return _RingAttention.apply(q, k, v, causal, scale, _placed(placing), block)


def _placed(placing: str) -> Callable[[int, int, int], np.ndarray]:
    if placing not in PLACINGS:
        raise ValueError(f"placing: got {placing!r}, expected one of {', '.join(PLACINGS)}")
    return PLACINGS[placing]


def _neighbours() -> tuple[int, int]:
    """Where messages go, and where they come from."""
    rank, ranks = place()
    return (rank + 1) % ranks, (rank - 1) % ranks
