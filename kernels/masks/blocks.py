"""A pattern by blocks of queries and keys: those seen in full need no mask, empty ones no work."""

from dataclasses import dataclass

import torch

from kernels.masks.pattern import Pattern, indices

EMPTY, PARTIAL, FULL = 0, 1, 2


@dataclass(frozen=True)
class Blocks:
    """kinds: int8, batch×heads×(blocks of queries)×(blocks of keys), of EMPTY, PARTIAL, FULL; `size` positions a block."""

    kinds: torch.Tensor
    size: int

    @property
    def empty(self) -> int:
        return int((self.kinds == EMPTY).sum())

    @property
    def partial(self) -> int:
        return int((self.kinds == PARTIAL).sum())

    @property
    def full(self) -> int:
        return int((self.kinds == FULL).sum())

    @property
    def density(self) -> float:
        """The share of blocks that are not empty."""
        return 1 - self.empty / self.kinds.numel()


def blocks(
    pattern: Pattern,
    batch: int,
    heads: int,
    queries: int,
    keys: int,
    size: int = 128,
    device: torch.device | str = "cpu",
) -> Blocks:
    """Count a pattern's blocks, exactly. The last block of a row or column may be smaller; what lies beyond does not count.

    ValueError: a size below 1, or what the pattern does not fit.
    """
    if size < 1:
        raise ValueError(f"size: got {size}, expected at least 1")
    pattern.fits(heads, queries, keys)
    columns = -(-keys // size)
    rows = []
    for begin in range(0, queries, size):  # a row of blocks at a time, so that no square of the length is held
        q = torch.arange(begin, min(begin + size, queries), device=device)
        b, h, query, kv = indices(batch, heads, q, keys)
        seen = torch.ones((), dtype=torch.bool, device=device)
        seen = (seen if pattern.mask_mod is None else pattern.mask_mod(b, h, query, kv)).expand(
            batch, heads, len(q), keys
        )
        count = torch.zeros(batch, heads, columns, dtype=torch.int64, device=device)
        count.index_add_(2, kv // size, seen.sum(2))
        there = torch.bincount(kv // size, minlength=columns) * len(q)
        rows.append((count > 0).to(torch.int8) + (count == there).to(torch.int8))
    return Blocks(torch.stack(rows, dim=2), size)
