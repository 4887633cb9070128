"""The parts of a sequence joined: calls, what comes of well-known mistakes, and how often each number is read."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from kernels.grading import properties
from kernels.grading.exercise import Call, Exercise
from kernels.grading.far_apart import ends_only
from kernels.grading.labs.paged_decode.calls import HUGE, LOWEST, PRELUDE, SHIFT, Values, one_by_one
from kernels.grading.labs.paged_decode.costs import requests
from kernels.grading.properties import counters, known_mistakes, load_balance, scratch_memory, termination
from kernels.grading.properties.wide_index import also_far, size_t
from kernels.hardware import WARP


def _call(random: torch.Generator, S: int, D: int, parts: int, kind: str = "all") -> Call:
    """kind: of "gaps", some parts have no keys; of "none", no part of the second sequence has any; of "heavy", every other
    part has millions, far below the others' keys; of "peaks", part s of sequence s lies far above its others; of "huge",
    scores lie near -1e35 and 1e35; of "whole", all are whole numbers, whose sums are exact in any order, and none fades;
    of "ends", only the first and the last of the sequences are there."""
    blocks, S = S, 2 if kind == "ends" else S
    largest = 3 * torch.randn(S, parts, generator=random)
    shift = {"all": SHIFT, "huge": HUGE}.get(kind, 1000 * SHIFT)
    largest += torch.where(torch.arange(S) % 2 == 0, -shift, shift)[:, None]
    if kind == "peaks":
        largest.diagonal().add_(SHIFT)
    sums = 1 + 9 * torch.rand(S, parts, generator=random)
    if kind == "heavy":
        below = torch.arange(S * parts).view(S, parts) % 2 * (15 + 3 * torch.rand(S, parts, generator=random))
        largest, sums = 0.1 * torch.rand(S, parts, generator=random) - below, sums.where(below == 0, 1e6 * sums)
    values = sums[..., None] * (3 + torch.randn(S, parts, D, generator=random))
    if kind == "whole":
        largest.zero_(), sums.round_(), values.round_()
    empty = (torch.arange(S * parts).view(S, parts) % 3 == 1) & (kind == "gaps")
    empty[:, -1] |= kind == "gaps"
    empty[1:2] |= kind == "none"
    largest[empty], sums[empty], values[empty] = LOWEST, 0.0, 0.0
    args: dict[str, Any] = {"largest": largest, "sums": sums, "values": values}
    return Call(
        {"y": torch.empty(S, D), "lse": torch.empty(S), **args, "parts": parts, "D": D},
        expected=_joined(**{name: one.double() for name, one in args.items()}),
        baseline=_joined(**args, add=one_by_one),
        grid=(blocks,),
        block=(D,),
        **(
            ends_only(blocks, y=(D,), lse=(), largest=(parts,), sums=(parts,), values=(parts, D))
            if kind == "ends"
            else {}
        ),
    )


def _factors(largest: torch.Tensor) -> torch.Tensor:
    return (largest - largest.amax(1, keepdim=True)).exp()


def _joined(
    largest: torch.Tensor,
    sums: torch.Tensor,
    values: torch.Tensor,
    sum_inputs: Callable = _factors,
    value_inputs: Callable = _factors,
    add: Callable = torch.sum,
    **_: Any,
) -> Values:
    total = add(sum_inputs(largest) * sums, dim=1)
    y = add(value_inputs(largest)[..., None] * values, dim=1) / total[:, None]
    return {"y": y.where(total[:, None] > 0, 0.0), "lse": largest.amax(1) + total.log()}


def _y(**mistake: Any) -> Callable[..., Values]:
    return lambda **args: {"y": _joined(**args, **mistake)["y"]}


def _lse(value: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Callable[..., Values]:
    """value: of the largest score, and of the lse."""
    return lambda **args: {"lse": value(args["largest"].amax(1), _joined(**args)["lse"])}


_ones = torch.ones_like
_LIKES: dict[str, Callable[..., Values]] = {
    "factors that are all 1: a part fades by how far its largest score lies below all others'": _y(
        sum_inputs=_ones, value_inputs=_ones
    ),
    "sums that do not fade as the values do": _y(sum_inputs=_ones),
    "values that do not fade as the sums do": _y(value_inputs=_ones),
    "values that are not divided by the sum": lambda **args: {
        "y": (_factors(args["largest"])[..., None] * args["values"]).sum(1)
    },
    "the mean of what each part gives by itself": lambda **args: {
        "y": (args["values"] / args["sums"][..., None]).mean(1)
    },
    "a largest score that begins with 0: all scores may be below": lambda **args: {
        "y": _joined(**args)["y"].where(args["largest"].amax(1)[:, None] > 0, 0.0)
    },
    "the largest score plus the sum, without a logarithm": _lse(lambda m, lse: m + (lse - m).exp()),
    "a logarithm to base 2": _lse(lambda m, lse: m + (lse - m) / torch.tensor(2.0).double().log()),
    "the logarithm of the sum, without the largest score": _lse(lambda m, lse: lse - m),
    "the largest score alone": _lse(lambda m, lse: m),
}
_right = functools.partial(known_mistakes.right, cases=("even",), likes=_LIKES)

_INSIDE = {  # of each array that is given, and then of one's own
    f" {array}[": "Part i of sequence s is number s * parts + i. A loop over parts ends at `parts`."
    for array in ("y", "lse", "largest", "sums", "values")
} | {"": "`parts` has no limit, and an array of a kernel's own has. What of each part has to be kept?"}

JOIN_PARTS = Exercise(
    name="join_parts",
    language="cuda",
    call=_call,
    cases={
        "even": {"S": 4, "D": 256, "parts": 8},
        "gaps": {"S": 5, "D": 96, "parts": 7, "kind": "gaps"},
        "none": {"S": 3, "D": 64, "parts": 6, "kind": "none"},
        "many": {"S": 2, "D": 32, "parts": 150},
        "one part": {"S": 2, "D": 1024, "parts": 1, "kind": "huge"},
        "wide": {"S": 5, "D": 224, "parts": 5, "kind": "peaks"},
        "long": {"S": 1, "D": 32, "parts": 4160, "kind": "whole"},
        "heavy": {"S": 3, "D": 64, "parts": 6, "kind": "heavy"},
        "ends": {"S": 10_000_000, "D": 64, "parts": 7, "kind": "ends"},
    },
    unwatched=("ends",),
    drawn={
        "even": {"S": range(2, 6), "parts": range(4, 13)},
        "gaps": {"S": range(3, 7), "D": range(64, 129, 32), "parts": range(5, 10)},
        "many": {"S": range(1, 4), "parts": range(100, 170)},
        "wide": {"D": range(160, 321, 32)},
    },
    prelude=PRELUDE,
    properties=(
        properties.stays_inside(_INSIDE),
        termination.reaches_barriers(
            "Every thread of the block comes to every barrier, and every lane to every shuffle."
        ),
        termination.finishes(),
        properties.without(
            *("race", "uninitialised read"),
            name="no race, and no uninitialised read",
            hint="What stands between writing a factor to shared memory and reading it?",
        ),
        properties.written("y and lse are written", "Which thread writes feature d, and which one the lse?"),
        _right(
            "y",
            name="y is the mean of values by all exponentials",
            hint="Find the largest of all parts first. Then each part has one factor, for its sum and for its values.",
        ),
        _right(
            "lse",
            name="lse is the logarithm of the sum of exponentials",
            hint="Of the sum e to the power of the largest score was taken out. In the logarithm it is added again.",
        ),
        properties.right(
            *("wide", "one part"),
            name="also for one part, and for any D",
            hint={
                "huge": "A score may be any float: with what does the largest begin? And a block has up to 1,024 threads.",
                "": "D need not be a power of 2. And the largest of all parts is any part's.",
            },
        ),
        properties.right(
            "gaps",
            name="also where some parts have no keys",
            hint="Such a part has the lowest float and 0, and may stand before others. What is e to the power of that, less "
            "the largest score of all?",
        ),
        properties.right(
            "none",
            name="a sequence without keys gives 0 and -inf",
            hint="Its sum is 0, and 0 / 0 is NaN. What is the logarithm of 0, and what is added to it?",
        ),
        properties.right(
            "heavy",
            name="also where a part of millions of keys lies far below",
            hint="A factor of 1e-7 may meet a sum of 1e7: none is small enough to be left out.",
        ),
        properties.right(
            *("many", "long"),
            name="also where there are more parts than threads",
            hint="A thread may go through all parts.",
        ),
        counters.fewest_sectors(
            *("load", "values", "even", "gaps", "many"),
            name="values are read once, in the fewest sectors",
            advice="thread d has feature d of every part",
        ),
        counters.fewest_sectors(
            *("store", "y", "even", "gaps"),
            name="y is written once, in the fewest sectors",
            advice="keep the sum in a register, and store it when all parts are in it",
        ),
        requests(
            *("the lanes of a warp work together", ("values", "y")),
            lambda trial: trial.sizes["S"] * (trial.sizes["parts"] + 1) * trial.sizes["D"] // WARP,
            "32 lanes take 32 neighbouring features",
        ),
        requests(
            *("largest scores and sums are read a few times", ("largest", "sums")),
            lambda trial: 4 * trial.sizes["S"] * trial.sizes["parts"] * trial.sizes["D"] // WARP,
            "a warp reads them once to find the largest, and once to add",
        ),
        counters.at_most(
            *("barriers", lambda S, parts, D, **_: S * (4 + D // WARP + 2 * -(-parts // D))),
            name="no barrier for each part",
            advice="a thread's feature needs nobody else's",
        ),
        load_balance.balanced(
            *("values", "even"), slack=4, name="all warps take part", hint="A feature has its thread."
        ),
        counters.at_most(
            "atomics", lambda **_: 0, name="no atomics", advice="in order, all bits are the same each time"
        ),
        also_far("ends", name="also for millions of sequences", hint=size_t("(s * parts + i) * D + d")),
        scratch_memory.no_scratch_memory(name="there is no other memory", advice="sums are in registers"),
    ),
)
