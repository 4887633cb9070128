"""Calls of the kernel that has a part of the keys: caches in pages, what each part leaves, and what mistakes make of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from kernels.grading.exercise import Call

Values = dict[str, torch.Tensor]
LOWEST = torch.finfo(torch.float32).min
SHIFT = 120.0  # by which scores lie above 0 or below: more than exp has numbers for
_FAR = 1 << 30  # a distance of pages with which the third begins where an int does not count any more
_FREE = -1, 1 << 30  # what stands by turns in a table where a sequence has no page
_ROUNDINGS = 4  # of a score, that a result may suffer from

_OVER = "(float x) {{ for (int a = 16; a; a /= 2) x = {}; return x; }}"
_OTHER = "__shfl_xor_sync(0xffffffff, x, a)"
PRELUDE = (  # one line, so that the lines of a submission keep their numbers
    "constexpr float LOWEST = -3.402823466e+38f; "
    f"__device__ float warp_sum{_OVER.format(f'x + {_OTHER}')} __device__ float warp_max{_OVER.format(f'fmaxf(x, {_OTHER})')}"
)


def call(
    random: torch.Generator, S: int, D: int, rows: int, keys: int, parts: int, kind: str = "cut", far: bool = False
) -> Call:
    """S sequences in pages of `rows` keys, `parts` parts of `keys` keys. Sequences 0 and 1 share their first page. What no
    sequence has is NaN: rows behind its last key, and two more pages.

    kind: "full", as many keys as parts can have; "cut", no part is without one; or "empty", sequence 1 has none.
    """
    most, width = parts * keys, -(-parts * keys // rows)
    fewest = {"full": most, "cut": most - keys + 1, "empty": 1}[kind]
    lengths = torch.randint(fewest, most + (kind == "full"), (S,), generator=random, dtype=torch.int32)
    lengths[1:2] *= kind != "empty"
    count = S * width + 2 * (not far)
    pages = torch.randperm(count, generator=random)[: S * width].view(S, width).int()
    pages[1:2, 0] = pages[0, 0]
    of_table = torch.arange(width)
    free = torch.tensor(_FREE, dtype=torch.int32)[of_table % 2]
    table = pages.where(of_table * rows < lengths[:, None], free)

    q, k, v = (torch.randn(*of, D, generator=random) for of in ((S,), (count, rows), (count, rows)))
    # By turns a sequence's scores rise from key to key, far above 0, or fall, far below: further than chance goes.
    sign = torch.where(torch.arange(S) % 2 == 0, 1.0, -1.0) * D**0.5
    q[:, 0], k[pages.long(), :, 0] = sign, torch.linspace(-4, 4, width * rows).view(width, rows)
    q[:, 1], k[..., 1] = sign * SHIFT, 1.0
    page, row, live = _places(table, lengths, rows, most)
    nobody = torch.ones(count, rows, dtype=torch.bool).index_put_((page[live], row[live]), torch.tensor(False))
    k[nobody], v[nobody] = torch.nan, torch.nan

    outputs = {"largest": torch.empty(S, parts), "sums": torch.empty(S, parts), "values": torch.empty(S, parts, D)}
    args: dict[str, Any] = outputs | {
        "q": q,
        "k": k,
        "v": v + 3,
        "table": table,
        "lengths": lengths,
        "D": D,
        "rows": rows,
    }
    args |= {"width": width, "keys": keys, "stride": _FAR if far else rows * D}
    return Call(
        args,
        expected=left(**args),
        baseline={name: one.float() for name, one in left(**args, rounded=True).items()},
        grid=(parts, S),
        block=(D,),
        strides={name: (_FAR, D, 1) for name in "kv"} if far else {},
    )


def _places(table: torch.Tensor, lengths: torch.Tensor, rows: int, most: int) -> tuple[torch.Tensor, ...]:
    """Of `most` keys of each sequence: pages, rows, and whether there is such a key."""
    j = torch.arange(most)
    live = j < lengths[:, None]
    return table[:, j // rows].long().masked_fill(~live, 0), (j % rows).expand_as(live), live


def one_by_one(terms: torch.Tensor, dim: int) -> torch.Tensor:
    """The sum from the first to the last: of all orders, the one with the most rounding."""
    return functools.reduce(torch.add, terms.unbind(dim))


def left(scaled: float = 1.0, exponent: Callable = torch.exp, rounded: bool = False, **args: Any) -> Values:
    """What the parts leave. scaled: how often. exponent: in place of exp. rounded: with scores a few roundings off, and sums
    in float32; else in float64."""
    (S, parts, D), keys = args["values"].shape, args["keys"]
    page, row, live = _places(args["table"], args["lengths"], args["rows"], parts * keys)
    k, v = (args[of][page, row].double().masked_fill(~live[..., None], 0.0) for of in "kv")
    s = (k @ args["q"].double()[..., None])[..., 0] * D ** (-0.5 * scaled)
    if rounded:  # so that neighbours do not err alike
        off = torch.where(torch.arange(parts * keys) % 2 == 0, 1.0, -1.0)
        s = s * (1 + _ROUNDINGS * torch.finfo(torch.float32).eps * off)
    s = s.masked_fill(~live, -torch.inf).view(S, parts, keys, 1)
    largest = s.amax(2).clamp(min=LOWEST)
    p, v = exponent(s - largest[..., None]), v.view(S, parts, keys, D)
    add, of = (one_by_one, torch.float32) if rounded else (torch.sum, torch.float64)
    p, v = p.to(of), v.to(of)
    return {"largest": largest[..., 0], "sums": add(p, dim=2)[..., 0], "values": add(p * v, dim=2)}


def _divided(**args: Any) -> Values:
    found = left(**args)
    return {"values": found["values"] / found["sums"][..., None]}


LIKES: dict[str, Callable[..., Values]] = {
    "q · k, without the scale": functools.partial(left, scaled=0),
    "scores that were scaled twice": functools.partial(left, scaled=2),
    "a largest score that begins with 0: all scores may be below": lambda **args: {
        "largest": left(**args)["largest"].clamp(min=0)
    },
    "powers of 2 in place of e": functools.partial(left, exponent=torch.exp2),
    "weights that are all 1": functools.partial(left, exponent=torch.ones_like),
    "values that are divided by the sum, which is for the join": _divided,
    "rows of k, where v is meant": lambda **args: left(**args | {"v": args["k"]}),
}
