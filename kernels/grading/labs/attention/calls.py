"""Calls of attention, what must come of them, and what comes of well-known mistakes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from kernels.grading.exercise import Call
from kernels.grading.properties.wide_index import FAR

Values = dict[str, torch.Tensor]

_LARGE = 1e4  # scores, with either sign
_DEEP = 2.0**60  # so far below 0 that only what stands for -∞ lies lower
_WIDE = 2.0**20
_ROUNDINGS = 2  # of a score, that a result may suffer from: the order of a sum, a scale for exponents of 2


def call(
    random: torch.Generator,
    H: int,
    M: int,
    N: int,
    D: int,
    causal: bool = False,
    dtype: str = "float32",
    kind: str = "normal",
) -> Call:
    """Of H heads. kind: "large", "lowest" (all scores of all queries below -10,000), "deep" (all below -2⁶⁰),
    "strided" (rows of heads side by side), or "far" (heads whose places need 64 bits)."""
    to = getattr(torch, dtype)
    q, k, v = (torch.randn(H, rows, D, generator=random) for rows in (M, N, N))
    # From key to key the scores of every other query rise and those of its neighbours fall, further than chance goes.
    sign = torch.where(torch.arange(M) % 2 == 0, 1.0, -1.0)
    q[..., 0], k[..., 0] = D**0.5 * sign, torch.linspace(-4, 4, N) if N > 1 else torch.ones(N)
    v += 3
    if kind == "large":
        # By turns far above 0 and far below; and from a block of keys to the next, higher or lower than exp has numbers for.
        # All of it in numbers of few bits, so that their products are not rounded.
        q[..., 1], k[..., 1] = _LARGE * sign / 100, D**0.5 * torch.linspace(98, 102, N).mul(16).round() / 16
    if kind == "lowest":
        q[...] = 0.0
        q[..., 1], k[..., 1] = -100.0, D**0.5 * torch.linspace(102, 106, N).mul(16).round() / 16
    if kind == "deep":
        # From key to key they rise further than a rounding goes: the last key has all the weight.
        q[...] = 0.0
        q[..., 1], k[..., 1] = -(_DEEP**0.5), D**0.5 * _DEEP**0.5 * (2 - torch.arange(N) / 128)
    if dtype == "bfloat16":
        # It has numbers that float16 has not; by powers of two, which leave the scores and all else as they are.
        q, k, v = q * _WIDE, k / _WIDE, v * _WIDE
    q, k, v = (one.to(to) for one in (q, k, v))
    if kind == "strided":
        q, v = (one.transpose(0, 1).contiguous().transpose(0, 1) for one in (q, v))
    strides = {name: (FAR, D, 1) for name in "qkv"} if kind == "far" else {}
    args = {"q": q, "k": k, "v": v, "causal": causal}
    return Call(
        args,
        expected=attention(q.double(), k.double(), v.double(), causal),
        baseline=_baseline(q, k, v, causal),
        strides=strides,
    )


def seen(M: int, N: int, causal: bool, ahead: int | None = None) -> torch.Tensor:
    """M×N booleans. ahead: how many keys a causal query sees beyond those of its own number; by default, the last query
    sees the last key."""
    ahead = N - M if ahead is None else ahead
    return torch.ones(M, N, dtype=torch.bool) if not causal else torch.ones(M, N, dtype=torch.bool).tril(ahead)


def _scores(q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(~mask, -torch.inf)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, ahead: int | None = None) -> Values:
    """By the definition, in float64."""
    s = _scores(q, k, seen(q.shape[1], k.shape[1], causal, ahead))
    return {"y": s.softmax(-1).nan_to_num(0.0) @ v, "lse": s.logsumexp(-1)}


def _baseline(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> Values:
    """With scores that are a few roundings off, weights rounded to the tensors' type, as a product of matrices has it, and
    float32 sums that go from one key to the next: of all orders, the one with the most rounding."""
    s = _scores(q.double(), k.double(), seen(q.shape[1], k.shape[1], causal))
    off = torch.where(torch.arange(s.shape[-1]) % 2 == 0, 1.0, -1.0)  # so that neighbours do not err alike
    s = s * (1 + _ROUNDINGS * torch.finfo(torch.float32).eps * off)
    largest = s.amax(-1, keepdim=True).nan_to_num(neginf=0.0)
    p = (s - largest).exp().float()
    total = _one_by_one(p[..., None])
    y = _one_by_one(p.to(q.dtype).float()[..., None] * v.float()[:, None])
    y = torch.where(total > 0, y / total, 0.0)
    return {"y": y.to(q.dtype), "lse": (largest + total.log()).float()[..., 0]}


def _one_by_one(terms: torch.Tensor) -> torch.Tensor:
    """The sum over the last dimension but one."""
    return functools.reduce(torch.add, terms.unbind(-2))


# What the mistakes give. Each is a function of the arguments, in float64.


def _weighted(weights: Callable[[torch.Tensor], torch.Tensor], scaled: float = 1.0) -> Callable[..., Values]:
    """y by other weights than the softmax; the scores times √D to the power of 1 - `scaled`."""

    def values(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> Values:
        s = q @ k.mT * q.shape[-1] ** (-0.5 * scaled)
        return {"y": weights(s.masked_fill(~seen(q.shape[1], k.shape[1], causal), -torch.inf)) @ v}

    return values


_softmax = partial(torch.softmax, dim=-1)
FORMULA = {
    "the softmax of q · k, without the scale": _weighted(_softmax, 0.0),
    "the softmax of scores that were scaled twice": _weighted(_softmax, 2.0),
    "the sum of values by exponentials, not divided by their sum": _weighted(
        lambda s: (s - s.amax(-1, keepdim=True)).exp()
    ),
    "the sum of values by the scores themselves, without a softmax": _weighted(lambda s: s),
    "powers of 2 in place of e, whose exponents have no factor log2(e)": _weighted(lambda s: _softmax(s * math.log(2))),
    "a softmax over the queries, from top to bottom: it goes over the keys of one query": _weighted(
        partial(torch.softmax, dim=-2)
    ),
    "the mean of the values, all with the same weight": _weighted(lambda s: torch.ones_like(s) / s.shape[-1]),
}


def _lse_values(values: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Values]:
    def wrong(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> Values:
        return {"lse": values(_scores(q, k, seen(q.shape[1], k.shape[1], causal)))}

    return wrong


LSE = {
    "the logarithm to base 2: exponents of 2 were not turned back by log 2": _lse_values(
        lambda s: s.logsumexp(-1) / torch.log(torch.tensor(2.0, dtype=torch.float64))
    ),
    "the logarithm of the sum without the largest score": _lse_values(lambda s: s.logsumexp(-1) - s.amax(-1)),
    "the largest score without the logarithm of the sum": _lse_values(lambda s: s.amax(-1)),
    "the largest score plus the sum, not its logarithm": _lse_values(
        lambda s: s.amax(-1) + (s - s.amax(-1, keepdim=True)).exp().sum(-1)
    ),
    "the sum of exponentials, not its logarithm": _lse_values(lambda s: (s - s.amax(-1, keepdim=True)).exp().sum(-1)),
}


def _padded(block: int, **args: Any) -> Values:
    """Keys beyond the end take part, with zeros for key and value."""
    q, k, v = args["q"], args["k"], args["v"]
    k, v = (torch.nn.functional.pad(one, (0, 0, 0, -k.shape[1] % block)) for one in (k, v))
    return attention(q, k, v, causal=False)


BEYOND = {
    f"keys beyond the end that count, with a score of 0: a block of {block} is filled up with them": partial(
        _padded, block
    )
    for block in (16, 32, 64, 128)
}


def _ahead(number: Callable[[int, int], int]) -> Callable[..., Values]:
    return lambda q, k, v, causal: attention(q, k, v, causal, number(q.shape[1], k.shape[1]))


_flip = partial(torch.flip, dims=(1,))


def _after(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> Values:
    return {name: _flip(one) for name, one in attention(_flip(q), _flip(k), _flip(v), causal).items()}


MASK = {
    "no mask at all: every query sees every key": lambda q, k, v, causal: attention(q, k, v, False),
    "a mask that hides a query's own key, too": _ahead(lambda M, N: N - M - 1),
    "a mask that shows one key too many": _ahead(lambda M, N: N - M + 1),
    "a mask the other way round: keys after a query's own place": _after,
}


def _no_weight(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> Values:
    return {"y": torch.zeros_like(q), "lse": torch.full(q.shape[:2], -torch.inf, dtype=q.dtype)}


BEGINS = {
    "weights that are all 0, since a larger score was kept: the one to begin with, or that of a key beyond the end": _no_weight
}
OFFSET = {
    "a mask by the numbers of query and key: the first query stands at the first key, and not the last at the last": _ahead(
        lambda M, N: 0
    ),
    "a place of i + M - N, where it is i + N - M": _ahead(lambda M, N: M - N),
    **MASK,
}


def _shared(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> Values:
    found = attention(q, k, v, causal)
    alone = ~seen(q.shape[1], k.shape[1], causal).any(-1)
    found["y"][:, alone] = v.mean(1, keepdim=True)
    return found


ALONE = {
    "a mean of all values where there is no key: hidden scores that are a large negative number, and no -∞": _shared
}
