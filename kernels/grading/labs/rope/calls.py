"""Calls of the two kernels, on a tensor that holds q, k and v of each position, and what well-known mistakes make of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from kernels.grading.exercise import Call
from kernels.grading.properties.wide_index import FAR

THREADS = (32, 4)  # a block: pairs, positions
Pairs = Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both features of every pair of a head's D features, as views: i and i + D/2."""
    first, second = x.chunk(2, -1)
    return first, second


def neighbours(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same where pairs are 2i and 2i + 1."""
    return x[..., ::2], x[..., 1::2]


def turned_heads(x: torch.Tensor, H: int, K: int, D: int) -> torch.Tensor:
    """The heads of q and k in a tensor of B × S × `row`, as a view (B, S, H + K, D)."""
    return x[..., : (H + K) * D].unflatten(-1, (H + K, D))


def turned(pairs: Pairs, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, H: int, K: int, D: int) -> torch.Tensor:
    """A copy of x whose heads of q and k are turned by angles of shape (S, D/2), or (S, heads, D/2)."""
    y = x.clone()
    (a, b), (to_a, to_b) = (pairs(turned_heads(one, H, K, D)) for one in (x, y))
    c, s = (of if of.ndim == 3 else of[:, None] for of in (cos, sin))
    to_a.copy_(a * c - b * s)
    to_b.copy_(b * c + a * s)
    return y


def call(
    random: torch.Generator,
    B: int,
    S: int,
    H: int,
    K: int,
    D: int,
    row: int,
    pairs: Pairs,
    dtype: torch.dtype,
    output: str,
    back: bool,
    kind: str = "normal",
) -> Call:
    """H heads of q, then K of k and K of v, make a position; the next begins `row` elements further. `back`: by the negative
    angles. kind: of "extreme" values, positions have huge or tiny ones, the first an infinite one, and so the last,
    where the angle is 0."""
    apart = row >= FAR
    x = torch.randn(B, S, (H + 2 * K) * D if apart else row, generator=random)
    if kind == "extreme":
        x *= torch.tensor([1.0, 1e30, 1e-30])[torch.arange(S) % 3][:, None]
        x[:, [0, -1], [0, 4]] = torch.inf
    x = x.to(dtype)
    # Where a sequence may begin: so that an angle of another position is another, also for the first.
    angles = (torch.arange(S) + 100)[:, None] * 10_000.0 ** (-torch.arange(0, D, 2) / D)
    cos, sin = angles.cos().float(), angles.sin().float()
    cos[-1, -1], sin[-1, -1] = -1.0, 0.0  # half a turn
    if kind == "extreme":  # of feature 4, in either order: 0 · ∞
        cos[-1, [2, 4]], sin[-1, [2, 4]] = 1.0, 0.0
    turn = partial(turned, pairs, H=H, K=K, D=D)
    sign = -1 if back else 1
    args = {output: x, "cos": cos, "sin": sin, "S": S, "H": H, "K": K, "D": D, "row": row}
    return Call(
        args,
        expected={output: turn(x.double(), cos.double(), sign * sin.double())},
        baseline={output: turn(x.float(), cos, sign * sin).to(dtype)},
        updated=(output,),
        grid=(-(-D // 2 // THREADS[0]), -(-S // THREADS[1]), B),
        block=THREADS,
        strides={output: (S * row, row, 1)} if apart else {},
    )


def _in_turn(pairs: Pairs, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, **sizes: int) -> torch.Tensor:
    """The second of each pair from the new first."""
    y = turned(pairs, x, cos, sin, **sizes)
    (_, b), (to_a, to_b) = (pairs(turned_heads(one, **sizes)) for one in (x, y))
    to_b.copy_(b * cos[:, None] + to_a * sin[:, None])
    return y


def mistakes(output: str, pairs: Pairs, back: bool) -> dict[str, Callable[..., dict[str, torch.Tensor]]]:
    """What the right values may be confused with, for `known_mistakes.right`."""
    sign = -1 if back else 1

    def of(values: Callable[..., torch.Tensor]) -> Callable[..., dict[str, torch.Tensor]]:
        def likely(cos: torch.Tensor, sin: torch.Tensor, S: int, row: int, **others: Any) -> dict[str, torch.Tensor]:
            x = others.pop(output)
            return {output: values(x, cos, sign * sin, **others)}

        return likely

    turn = partial(turned, pairs)
    said = "forward" if back else "backward"
    return {
        f"a turn {said}: look at the two signs": of(lambda x, cos, sin, **of: turn(x, cos, -sin, **of)),
        "the second of each pair computed from the new first: read both before you write either": of(
            partial(_in_turn, pairs)
        ),
        "sine and cosine exchanged": of(lambda x, cos, sin, **of: turn(x, sign * sin, sign * cos, **of)),
        "the angles of the first position for all": of(
            lambda x, cos, sin, **of: turn(x, cos[:1].expand_as(cos), sin[:1].expand_as(sin), **of)
        ),
        "two turns by the same angles": of(lambda x, cos, sin, **of: turn(turn(x, cos, sin, **of), cos, sin, **of)),
    }
