"""A pattern of attention, by FlexAttention's convention: a function says who is seen, another changes scores."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

MaskMod = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
ScoreMod = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Pattern:
    """Who sees whom, and how scores change. `first & second` is both: seen by both, scores changed by first, then by second.

    Args:
        name: for people.
        mask_mod: (b, h, q, kv), integer tensors that broadcast → bool, whether the query at q sees the key at kv; or None,
            for all. As in FlexAttention (Dong et al., "Flex Attention", 2024).
        score_mod: (score, b, h, q, kv) → score, of scores that are scaled already; or None. It comes before the mask.
        length, heads: that alone it can be asked about, or None.
    """

    name: str
    mask_mod: MaskMod | None = None
    score_mod: ScoreMod | None = None
    length: int | None = None
    heads: int | None = None

    def __and__(self, other: "Pattern") -> "Pattern":
        for what in ("length", "heads"):
            one, two = getattr(self, what), getattr(other, what)
            if None not in (one, two) and one != two:
                raise ValueError(f"{what}: got {one} of {self.name} and {two} of {other.name}, expected the same")
        return Pattern(
            f"{self.name} & {other.name}",
            _both(self.mask_mod, other.mask_mod),
            _chain(self.score_mod, other.score_mod),
            self.length or other.length,
            self.heads or other.heads,
        )

    def fits(self, heads: int, queries: int, keys: int) -> None:
        """ValueError: it can not be asked about so many heads or positions."""
        if self.length not in (None, queries) or self.length not in (None, keys):
            raise ValueError(
                f"length: got {queries} queries and {keys} keys, expected {self.length}, as {self.name} has"
            )
        if self.heads not in (None, heads):
            raise ValueError(f"heads: got {heads}, expected {self.heads}, as {self.name} has")

    def mask(self, batch: int, heads: int, queries: int, keys: int, device: torch.device | str = "cpu") -> torch.Tensor:
        """Who sees whom, written out: bool, batch×heads×queries×keys."""
        self.fits(heads, queries, keys)
        b, h, q, kv = indices(batch, heads, torch.arange(queries, device=device), keys)
        seen = torch.ones((), dtype=torch.bool, device=device) if self.mask_mod is None else self.mask_mod(b, h, q, kv)
        return seen.expand(batch, heads, queries, keys)

    def scores(self, scores: torch.Tensor) -> torch.Tensor:
        """Scaled scores, B×H×Q×KV, changed, and −inf where a query does not see a key."""
        batch, heads, queries, keys = scores.shape
        seen = self.mask(batch, heads, queries, keys, scores.device)
        if self.score_mod is not None:
            scores = self.score_mod(scores, *indices(batch, heads, torch.arange(queries, device=scores.device), keys))
        return scores.masked_fill(~seen, float("-inf"))


def indices(batch: int, heads: int, q: torch.Tensor, keys: int) -> tuple[torch.Tensor, ...]:
    """Indices of batch, head, query and key, in shapes that broadcast to B×H×Q×KV."""
    b, h, kv = (torch.arange(size, device=q.device) for size in (batch, heads, keys))
    return b[:, None, None, None], h[:, None, None], q[:, None], kv


def _both(first: MaskMod | None, second: MaskMod | None) -> MaskMod | None:
    if first is None or second is None:
        return first or second
    return lambda b, h, q, kv: first(b, h, q, kv) & second(b, h, q, kv)


def _chain(first: ScoreMod | None, second: ScoreMod | None) -> ScoreMod | None:
    if first is None or second is None:
        return first or second
    return lambda score, b, h, q, kv: second(first(score, b, h, q, kv), b, h, q, kv)
