"""Calls of the kernel that has a part of the keys: caches in pages, what each part leaves, and what mistakes make of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch

from kernels.grading.exercise import Call
from kernels.grading.properties.wide_index import FAR

Values = dict[str, torch.Tensor]
LOWEST = torch.finfo(torch.float32).min
SHIFT = 120.0  # by which scores lie above 0 or below: more than exp has numbers for
HUGE = 1e35  # the same where a part has one key, so that no rounding of a score shows in an exponential
_LIGHT = (
    -14.0
)  # of e to this power, thousands weigh something beside a 1, and a float32 sum, one by one, is still right
_FREE = -1, 1 << 30  # what stands by turns in a table where a sequence has no page
_ROUNDINGS = 4  # of a score, that a result may suffer from

_OVER = "(float x) {{ for (int a = 16; a; a /= 2) x = {}; return x; }}"
_OTHER = "__shfl_xor_sync(0xffffffff, x, a)"
PRELUDE = (  # one line, so that the lines of a submission keep their numbers
    "constexpr float LOWEST = -3.402823466e+38f; "
    f"__device__ float warp_sum{_OVER.format(f'x + {_OTHER}')} __device__ float warp_max{_OVER.format(f'fmaxf(x, {_OTHER})')}"
)


def with_parts_beyond(random: torch.Generator, S: int, D: int, rows: int, keys: int, parts: int) -> Call:
    """As `call`, of 24 keys, which are in the first part of `keys`: many more than there are."""
    one = call(random, S, D, rows, keys=24, parts=1, kind="full")

    def padded(values: Mapping[str, torch.Tensor], **nothing: float) -> Values:
        return {
            name: torch.cat([of, torch.full_like(of, nothing.get(name, 0.0)).repeat_interleave(parts - 1, 1)], 1)
            for name, of in values.items()
        }

    outputs = padded({name: one.args[name] for name in one.expected})
    return replace(
        one,
        args={**one.args, **{name: torch.empty_like(of) for name, of in outputs.items()}, "keys": keys},
        expected=padded(one.expected, largest=LOWEST),
        baseline=padded(one.baseline, largest=LOWEST),
        grid=(parts, S),
    )


def with_ends_alone(random: torch.Generator, S: int, D: int, rows: int, keys: int, parts: int) -> Call:
    """As `call`, with as many keys as parts can have, but of all blocks the first and the last run. Their results and their
    entries of the table are far apart, and what lies between takes no memory."""
    one, width = call(random, 2, D, rows, keys, parts=2, kind="full"), -(-parts * keys // rows)

    def ends(values: Mapping[str, torch.Tensor]) -> Values:
        return {name: of[[0, 1], [0, 1]] for name, of in values.items()}

    table = one.args["table"].view(2, 2)[[0, 1], [0, 1]]
    outputs = {name: torch.empty_like(of) for name, of in ends(one.baseline).items()}
    last = S * parts - 1
    return replace(
        one,
        args={
            **one.args,
            **outputs,
            "table": table,
            "lengths": torch.full_like(one.args["lengths"], parts * keys),
            "width": width,
        },
        expected=ends(one.expected),
        baseline=ends(one.baseline),
        grid=(parts, S),
        strides={
            "largest": (last,),
            "sums": (last,),
            "values": (last * D, 1),
            "q": ((S - 1) * D, 1),
            "table": ((S - 1) * width + parts - 1,),
            "lengths": (S - 1,),
        },
        ends_only=True,
    )


def call(
    random: torch.Generator, S: int, D: int, rows: int, keys: int, parts: int, kind: str = "cut", far: bool = False
) -> Call:
    """S sequences in pages of `rows` keys, `parts` parts of `keys` keys. Sequences 0 and 1 share their first page. What no
    sequence has is NaN: rows behind its last key, and two more pages. The table ends with the last page of the last sequence.

    kind: "full", as many keys as parts can have; "huge", so, and scores by turns near 1e35 and -1e35; "cut", no part is
    without one; "light", so, and all keys but the first have weights near e to the power of -14; or "empty", sequence 1 has
    none. Or "beyond", see `with_parts_beyond`, or "ends", see `with_ends_alone`.
    """
    if others := {"beyond": with_parts_beyond, "ends": with_ends_alone}.get(kind):
        return others(random, S, D, rows, keys, parts)
    most, width = parts * keys, -(-parts * keys // rows)
    fewest = {"full": most, "huge": most, "empty": 1, "light": most - most // 20}.get(kind, most - keys + 1)
    lengths = torch.randint(fewest, most + (fewest == most), (S,), generator=random, dtype=torch.int32)
    lengths[1:2] *= kind != "empty"
    count = S * width + 2 * (not far)
    pages = torch.randperm(count, generator=random)[: S * width].view(S, width).int()
    pages[1:2, 0] = pages[0, 0]
    table_columns = torch.arange(width)
    free = torch.tensor(_FREE, dtype=torch.int32)[table_columns % 2]
    table = pages.where(table_columns * rows < lengths[:, None], free)

    q, k, v = (torch.randn(*of, D, generator=random) for of in ((S,), (count, rows), (count, rows)))
    # By turns a sequence's scores rise from key to key, far above 0, or fall, far below: further than chance goes.
    sign = torch.where(torch.arange(S) % 2 == 0, 1.0, -1.0) * D**0.5
    trend = torch.linspace(-4, 4, width * rows)
    if kind == "light":
        trend = torch.where(torch.arange(width * rows) > 0, _LIGHT, 0.0)
    q[:, 0], k[pages.long(), :, 0] = sign, trend.view(width, rows)
    q[:, -1], k[..., -1] = sign * (HUGE if kind == "huge" else SHIFT), 1.0
    if kind == "huge":
        k[pages[:, 1::2].long(), :, -1] = -1.0
    page, row, live = _places(table, lengths, rows, most)
    nobody = torch.ones(count, rows, dtype=torch.bool).index_put_((page[live], row[live]), torch.tensor(False))
    k[nobody], v[nobody] = torch.nan, torch.nan

    outputs = {"largest": torch.empty(S, parts), "sums": torch.empty(S, parts), "values": torch.empty(S, parts, D)}
    args: dict[str, Any] = outputs | {
        "q": q,
        "k": k,
        "v": v + 3,
        "table": table.flatten()[: (S - 1) * width - (-int(lengths[-1]) // rows)],
        "lengths": lengths,
        "D": D,
        "rows": rows,
    }
    args |= {"width": width, "keys": keys, "stride": FAR if far else rows * D}
    expected, rounded = left(**args), left(**args, rounded=True)
    if kind == "light":  # of one sum the error may be small by chance; a 16th of a unit for each key is a usual one
        rounded["sums"] = expected["sums"] * (1 + lengths[:, None] * torch.finfo(torch.float32).eps / 16)
    return Call(
        args,
        expected=expected,
        baseline={name: one.float() for name, one in rounded.items()},
        grid=(parts, S),
        block=(D,),
        strides={name: (FAR, D, 1) for name in "kv"} if far else {},
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
    table = torch.nn.functional.pad(args["table"], (0, S * args["width"] - len(args["table"])), value=_FREE[0])
    page, row, live = _places(table.view(S, -1), args["lengths"], args["rows"], parts * keys)
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


def _left_out(x: torch.Tensor) -> torch.Tensor:
    p = x.exp()
    return p.where(p > 1e-6, 0.0)


LIGHT_LIKES: dict[str, Callable[..., Values]] = {
    "weights below a millionth that are left out: thousands of them are a share of the sum": functools.partial(
        left, exponent=_left_out
    )
}
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
