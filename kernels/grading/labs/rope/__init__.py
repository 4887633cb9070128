"""Rotary embedding where q and k lie, in one tensor with v: halves turned forward, then neighbours turned back in bfloat16."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from kernels.grading import properties
from kernels.grading.exercise import Exercise, Property
from kernels.grading.labs.rope import calls
from kernels.grading.labs.rope.in_place import (
    all_turned,
    angles_once,
    few_sectors,
    lanes_together,
    lengths_kept,
    once,
    others_left,
)
from kernels.grading.properties import counters, known_mistakes, load_balance, scratch_memory
from kernels.grading.properties.rounding import rounded_once
from kernels.grading.properties.wide_index import FAR, PRODUCTS, also_far

_EXTREME = "Values may be infinite, as large as 1e30 or as small as 1e-30: none is limited, left out or taken for 0."
_EVEN = {"B": range(3, 5), "S": range(4, 17, 4), "H": range(2, 5), "K": range(2, 4)}


def _cases(vector: int) -> dict[str, dict[str, Any]]:
    """Rows begin at a multiple of `vector` elements, and some of them at no more."""
    return {
        "even": {"B": 3, "S": 8, "H": 4, "K": 2, "D": 64, "row": 512},
        "odd": {"B": 1, "S": 7, "H": 3, "K": 1, "D": 22, "row": 5 * 22 + 3 * vector},
        "wide": {"B": 1, "S": 5, "H": 2, "K": 2, "D": 130, "row": 6 * 130 + vector, "kind": "extreme"},
        "one": {"B": 1, "S": 1, "H": 1, "K": 1, "D": 2, "row": 6},
        "shared keys": {"B": 2, "S": 3, "H": 130, "K": 1, "D": 6, "row": 792 + vector},
        "long": {"B": 3, "S": 261, "H": 1, "K": 1, "D": 4, "row": 12},
        "four pairs": {"B": 2, "S": 5, "H": 1, "K": 2, "D": 8, "row": 40 + vector},
        "large": {"B": 2, "S": 257, "H": 9, "K": 3, "D": 96, "row": 1440 + vector},
        "apart": {"B": 2, "S": 5, "H": 2, "K": 1, "D": 10, "row": FAR},
    }


def _drawn(vector: int) -> dict[str, dict[str, range]]:
    return {
        "even": _EVEN | {"D": range(64, 129, 64), "row": range(1280, 1409, 32)},
        "odd": {"B": range(1, 4), "S": range(5, 30), "D": range(6, 63, 4), "row": range(320, 340, vector)},
        "wide": {"S": range(2, 9), "D": range(66, 160, 2), "row": range(960, 980, vector)},
        "shared keys": {"S": range(2, 7), "H": range(5, 12), "D": range(2, 30, 2), "row": range(390, 400, vector)},
    }


def _rounded_once(output: str, *cases: str) -> Property:
    hint = "The angles are floats, and so are the products: bfloat16 comes in when both are added up."
    return rounded_once(output, *cases, name="each result is rounded once", hint=hint)


def _exercise(
    name: str, output: str, pairs: calls.Pairs, dtype: torch.dtype, back: bool, said: str, together: str, prelude: str
) -> Exercise:
    """said: what every pair becomes. together: how neighbouring lanes read a head."""
    bf16 = dtype is torch.bfloat16
    cases = _cases(2 if bf16 else 1)
    right = partial(
        known_mistakes.right, output, likes=calls.mistakes(output, pairs, back), hint=f"{said} Compute one by hand."
    )
    return Exercise(
        name=name,
        language="cuda",
        call=partial(calls.call, pairs=pairs, dtype=dtype, output=output, back=back),
        cases=cases,
        drawn=_drawn(2 if bf16 else 1),
        unwatched=("large", "apart"),
        prelude=prelude,
        properties=(
            properties.stays_inside(
                "Guard the pair, below D / 2, and the position, below S, before the first access. A position has D / 2 angles, "
                "and a head D features, which are D / 2 pairs. And if the access is misaligned: where may a position begin, "
                "and for which D does each head begin at a multiple of 16 bytes?"
            ),
            properties.finishes(
                "A barrier has to be reached by all threads of a block. Does every loop come nearer to its end?"
            ),
            properties.without(
                "race",
                name="no race",
                hint="A feature that one thread reads is overwritten by another. Who may read both features of a pair, if "
                "nobody waits for anybody?",
            ),
            others_left(output, "A position holds H heads of q, K of k and K of v. How many of them are yours?"),
            all_turned(
                output,
                pairs,
                {
                    "extreme": _EXTREME,
                    "": "Which heads does the loop go through, and which pairs and positions have a thread?",
                },
            ),
            lengths_kept(
                output,
                pairs,
                {
                    "extreme": _EXTREME,
                    "H = 130": "H has no limit, and an array of a kernel's own has.",
                    "": "Both results need both old features, so read both before you write either. One sign is a minus.",
                },
            ),
            right(cases=("even",), name=said.rstrip(".")),
            right(
                cases=tuple(cases)[1:-1],
                name="also for sizes that the blocks do not divide, and for extreme values",
                hint={"extreme": _EXTREME, "": f"{said} Compute one by hand."},
            ),
            *([_rounded_once(output, *tuple(cases)[:-1])] if bf16 else []),
            once(
                output,
                "load",
                "every number of q and k is read once",
                {"v is not yours": "Where does the loop over the heads end?", "": "Keep both of a pair in variables."},
            ),
            once(output, "store", "every number of q and k is written once", "How many threads have this pair?"),
            few_sectors(output, "load", "q and k are read in the fewest sectors", together),
            few_sectors(output, "store", "q and k are written in the fewest sectors", together),
            angles_once("Read them before the loop over the heads."),
            lanes_together(
                2 if bf16 else 4, "Every lane that has a pair should read and write when its neighbours do."
            ),
            counters.at_most(
                "barriers",
                lambda B, S, D, **_: 2 * B * -(-S // calls.THREADS[1]) * -(-D // 2 // calls.THREADS[0]),
                name="no barrier for each head",
                advice="a pair is one thread's own, and it need not wait",
            ),
            counters.at_most(
                "atomics", lambda **_: 0, name="no atomics", advice="a pair is one thread's own, and needs no atomics"
            ),
            load_balance.balanced(
                output, "even", name="all warps take part", slack=2.5, hint="A thread for each pair and position."
            ),
            scratch_memory.no_scratch_memory(
                name="there is no other memory", advice="two variables of a thread hold its pair"
            ),
            also_far("apart", hint=f"{PRODUCTS} The third position may begin at 2 · 2³⁰, and the fifth at 4 · 2³⁰."),
        ),
    )


EXERCISES = (
    _exercise(
        "turn_halves",
        "qkv",
        calls.halves,
        torch.float32,
        False,
        said="features i and i + D/2 of q and k are turned.",
        together="Neighbouring lanes have neighbouring pairs, so their features are neighbours in both halves.",
        prelude="",
    ),
    _exercise(
        "turn_back",
        "grad",
        calls.neighbours,
        torch.bfloat16,
        True,
        said="features 2i and 2i + 1 of the gradients are turned back.",
        together="The two of a pair are neighbours: 4 bytes, which one load can ask for together.",
        prelude="#include <cuda_bf16.h>",
    ),
)
