"""Patterns and attention with the mistakes that people make with positions, slopes, empty rows and blocks."""

import math
from typing import Any

import torch

from kernels import masks
from kernels.masks.pattern import Pattern


def one_too_many(window: int) -> Pattern:
    return masks.sliding_window(window + 1)


def equal_lengths(ids: torch.Tensor) -> Pattern:
    """Takes documents of the same length for the same."""
    return masks.document(
        torch.stack([torch.bincount(row)[row] for row in ids.view(-1, ids.shape[-1])]).view(ids.shape)
    )


def sorted_slopes(num_heads: int) -> Pattern:
    """Gives heads that are no power of two slopes in falling order."""
    slopes = torch.tensor([1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 64, 1 / 256])
    return masks.custom(score_mod=lambda score, b, h, q, kv: score - slopes.to(score.device)[h] * (q - kv).abs())


def mask_then_change(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pattern: Pattern, method: str) -> torch.Tensor:
    """Changes scores that are masked already: a softcap makes −inf a number."""
    k, v = (one.repeat_interleave(2, dim=1) for one in (k, v))
    scores = masks.Pattern("", pattern.mask_mod).scores(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]))
    scores = masks.Pattern("", None, pattern.score_mod).scores(scores.nan_to_num(neginf=-1e30))
    return scores.softmax(-1) @ v


def without_rest(pattern: Pattern, batch: int, heads: int, queries: int, keys: int, size: int, device: str) -> Any:
    """Takes the smaller last blocks for partial, since they do not hold size × size pairs."""
    found = masks.blocks(pattern, batch, heads, queries, keys, size, device)
    found.kinds[:, :, -1].clamp_(max=1)
    return found


def averages_all(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pattern: Pattern, method: str) -> torch.Tensor:
    """A number in the place of −inf: a query that sees nothing sees all keys alike."""
    k, v = (one.repeat_interleave(2, dim=1) for one in (k, v))
    return pattern.scores(q @ k.mT / math.sqrt(q.shape[-1])).nan_to_num(neginf=-1e9).softmax(-1) @ v


def heads_in_turns(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pattern: Pattern, method: str) -> torch.Tensor:
    """Deals the heads of keys out in turns, where neighbouring query heads share one."""
    return masks.attention(q, k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1), pattern, method=method)


def by_corners(pattern: Pattern, batch: int, heads: int, queries: int, keys: int, size: int, device: str) -> Any:
    """Looks at the first and last positions of a block alone."""
    seen = pattern.mask(batch, heads, queries, keys, device)
    first, last = range(0, queries, size), [min(at + size, queries) - 1 for at in range(0, queries, size)]
    found = [seen[:, :, rows][..., columns] for rows in (first, last) for columns in (first, last)]
    corners = torch.stack(found)
    return masks.Blocks(corners.any(0).to(torch.int8) + corners.all(0).to(torch.int8), size)
