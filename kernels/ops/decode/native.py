"""Level 1: decoding in PyTorch operators, from which levels 2 and 3 are derived, and its signature."""

import torch

from kernels import arguments
from kernels.ops.attention.heads import fit_kernels, shapes
from kernels.signature import Signature


def decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lengths: torch.Tensor,
    table: torch.Tensor | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(y, lse), computed in float32 (float64 for float64) and rounded once. Pages are first put in order."""
    if table is not None:
        k, v = gathered(k, lengths, table), gathered(v, lengths, table)
    B, H, D = q.shape
    heads, S = k.shape[1], k.shape[2]
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    # The query heads that share a head of keys are the rows of one product.
    rows = q.to(wide).reshape(B, heads, H // heads, D) * (D**-0.5 if scale is None else scale)
    unseen = (torch.arange(S, device=q.device) >= lengths.unsqueeze(-1)).view(B, 1, 1, S)
    scores = torch.matmul(rows, k.to(wide).transpose(-2, -1)).masked_fill(unseen, float("-inf"))
    weights = scores.softmax(-1).masked_fill(unseen, 0.0)  # of no key it makes NaN
    values = v.to(wide).masked_fill(
        unseen.transpose(-2, -1), 0.0
    )  # what lies behind the last key may be NaN, and 0 · NaN is
    y = torch.matmul(weights, values).view(B, H, D)
    return y.to(q.dtype), scores.logsumexp(-1).view(B, H)


def gathered(cache: torch.Tensor, lengths: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """What is in pages, in order: B×H'×S×D for S = max_pages · page_size."""
    size, heads, D = cache.shape[1], cache.shape[2], cache.shape[3]
    in_use = torch.arange(table.shape[1], device=table.device) * size < lengths.unsqueeze(-1)
    pages = table.masked_fill(~in_use, 0)  # behind the last key a table may hold anything
    rows = cache.index_select(0, pages.flatten()).view(table.shape[0], table.shape[1] * size, heads, D)
    return rows.transpose(1, 2)


def validate(q, k, v, lengths, table=None, scale=None) -> None:
    arguments.floating("q", q, "(B, H, D)")
    if q.dim() != 3 or q.shape[-1] == 0:
        raise ValueError(f"q: got shape {tuple(q.shape)}, expected (B, H, D) with D of at least 1")
    (B, H, D), paged = q.shape, table is not None
    if not isinstance(k, torch.Tensor):
        raise TypeError(f"k: got {type(k).__name__}, expected a torch.Tensor")
    heads = k.shape[2 if paged else 1] if k.dim() == 4 else 0
    if not heads or H % heads or (paged and not k.shape[0] * k.shape[1]):
        layout = "(pages, page_size, H', D) with a page and a key at least" if paged else "(B, H', S, D)"
        raise ValueError(f"k: got shape {tuple(k.shape)}, expected {layout}, H' a divisor of q's {H} heads")
    arguments.like("k", k, (*k.shape[:3], D) if paged else (B, *k.shape[1:3], D), "q", q, why="B and D as q has them")
    arguments.like("v", v, k.shape, "k", k)
    arguments.integers("lengths", lengths, (B,), "q", q, why="a length for each sequence of q", dtype=torch.int32)
    if paged:
        arguments.integers("table", table, of=q, other="q", dtype=torch.int32)
        if table.dim() != 2 or len(table) != B:
            raise ValueError(f"table: got shape {tuple(table.shape)}, expected (B, max_pages) for q's {B} sequences")
    if scale is not None:
        arguments.number("scale", scale)
        if scale == 0:
            raise ValueError(f"scale: got {scale!r}, expected a positive number")
    arguments.below("lengths", lengths, (table.shape[1] * k.shape[1] if paged else k.shape[2]) + 1)
    if paged and arguments.known(lengths) and arguments.known(table):
        in_use = torch.arange(table.shape[1]) * k.shape[1] < lengths[:, None]
        arguments.below("table", table.masked_fill(~in_use, 0), len(k))


def validate_for_kernel(q, *others) -> None:
    validate(q, *others)
    fit_kernels(q)


SIGNATURE = Signature(
    "(Tensor q, Tensor k, Tensor v, Tensor lengths, Tensor? table=None, float? scale=None) -> (Tensor y, Tensor lse)",
    validate=validate_for_kernel,
    shapes=shapes,
    non_differentiable=("y", "lse"),
)
