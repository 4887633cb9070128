"""The patterns that models use. Each is one line of mathematics; `&` puts them together."""

import torch

from kernels.masks.pattern import MaskMod, Pattern, ScoreMod


def causal() -> Pattern:
    """A query sees itself and what comes before: kv ≤ q."""
    return Pattern("causal", lambda b, h, q, kv: kv <= q)


def sliding_window(window: int) -> Pattern:
    """A query sees itself and the window − 1 positions before: 0 ≤ q − kv < window (Mistral 7B, 2023).

    ValueError: a window below 1.
    """
    _at_least("window", window, 1)
    return Pattern(f"sliding window {window}", lambda b, h, q, kv: (kv <= q) & (q - kv < window))


def document(ids: torch.Tensor) -> Pattern:
    """Positions of the same document see each other: several documents are packed into one sequence.

    Args:
        ids: integers, (S,) or (B, S): the document that each position belongs to. For flex_attention on a GPU they lie
            there: its compiler takes no copy from another device.

    Raises:
        TypeError: ids that are no integers. ValueError: ids of another shape.
    """
    if ids.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"ids: got {ids.dtype}, expected int32 or int64")
    if ids.dim() not in (1, 2):
        raise ValueError(f"ids: got shape {tuple(ids.shape)}, expected (S,) or (B, S)")

    def same(b: torch.Tensor, h: torch.Tensor, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
        of = ids.to(q.device)
        return of[q] == of[kv] if of.dim() == 1 else of[b, q] == of[b, kv]

    return Pattern("document", same, length=ids.shape[-1])


def prefix(length: int) -> Pattern:
    """All see the first `length` positions; after them it is causal: kv < length or kv ≤ q (Raffel et al., "T5", 2020).

    ValueError: a length below 0.
    """
    _at_least("length", length, 0)
    return Pattern(f"prefix {length}", lambda b, h, q, kv: (kv < length) | (kv <= q))


def alibi(num_heads: int) -> Pattern:
    """score − slope(h) · |q − kv|: Press et al., "Train Short, Test Long" (2022); usually together with causal().

    For a power of two of heads, the slope of head h is 2^(−8 (h + 1) / num_heads); else those of the next lower power of two
    come first, and then every other one of its double.

    ValueError: no heads.
    """
    _at_least("num_heads", num_heads, 1)
    lower = 1 << (num_heads.bit_length() - 1)

    def closer(
        score: torch.Tensor, b: torch.Tensor, h: torch.Tensor, q: torch.Tensor, kv: torch.Tensor
    ) -> torch.Tensor:
        more = (2 * (h - lower) + 1) / (2 * lower)
        return score - torch.exp2(-8 * torch.where(h < lower, (h + 1) / lower, more)) * (q - kv).abs()

    return Pattern("ALiBi", score_mod=closer, heads=num_heads)


def softcap(cap: float) -> Pattern:
    """cap · tanh(score / cap): scores stay between −cap and cap (Gemma 2, 2024).

    ValueError: a cap that is not positive.
    """
    if not cap > 0:
        raise ValueError(f"cap: got {cap}, expected a positive number")
    return Pattern(f"softcap {cap:g}", score_mod=lambda score, b, h, q, kv: cap * torch.tanh(score / cap))


def custom(mask_mod: MaskMod | None = None, score_mod: ScoreMod | None = None) -> Pattern:
    """A pattern of your own; see Pattern for the two functions.

    ValueError: neither is given.
    """
    if mask_mod is None and score_mod is None:
        raise ValueError("mask_mod, score_mod: got neither, expected at least one")
    return Pattern("custom", mask_mod, score_mod)


def _at_least(name: str, got: int, least: int) -> None:
    if got < least:
        raise ValueError(f"{name}: got {got}, expected at least {least}")
