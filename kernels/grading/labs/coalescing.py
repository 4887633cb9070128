"""Heads to the front: y[b, h, s, d] = x[b, s, h, d]. Both arrays can be walked in order, if threads are numbered along d."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch

from kernels.grading import properties
from kernels.grading.exercise import Call, Exercise, Property, Trial
from kernels.grading.properties import counters, load_balance, scratch_memory

_THREADS = 256
_END = 256  # positions


def _call(random: torch.Generator, B: int, S: int, H: int, D: int, numbered: bool = False, ends: bool = False) -> Call:
    """ends: of one batch, only the first positions and the last are there, where the first block and the last are at work,
    whatever the order of the threads."""
    x = torch.randn((2, _END, H, D) if ends else (B, S, H, D), generator=random)
    x[torch.rand(x.shape, generator=random) < 1 / 8] *= 0  # or −0, which is another
    y = x.permute(2, 0, 1, 3) if ends else x.transpose(1, 2)
    if numbered:  # by numbers that a float holds
        x.copy_((torch.arange(x.numel()) % (1 << 24)).view(x.shape))
    args = {"y": torch.empty(y.shape), "x": x, "B": B, "S": S, "H": H, "D": D}
    apart = {"x": ((S - _END) * H * D, H * D, D, 1), "y": (S * D, (S - _END) * D, D, 1)}
    return Call(
        args,
        expected={"y": y.contiguous()},
        grid=(-(-B * S * H * D // _THREADS),),
        block=(_THREADS,),
        strides=apart if ends else {},
        ends_only=ends,
    )


def _where_written(right: Property) -> Property:
    """Of a grid whose ends alone ran, elements that another block writes are left out. They are NaN, as none of x is."""

    def seen(trial: Trial) -> Trial:
        if not trial.call.ends_only or not trial.outputs:
            return trial
        y = trial.outputs["y"]
        return replace(trial, outputs={"y": torch.where(y.isnan(), trial.call.expected["y"], y)})

    def broken(trials: Sequence[Trial]) -> str | None:
        return right.broken([seen(one) for one in trials])

    return replace(right, broken=broken)


_same = partial(properties.right, exact=True, signed=True)
_ADVICE = "let neighbouring threads differ in d, the index whose elements are neighbours in memory"

EXERCISES = (
    Exercise(
        name="permuted_copy",
        language="cuda",
        call=_call,
        cases={
            "even": {"B": 2, "S": 32, "H": 4, "D": 16},
            "odd": {"B": 3, "S": 7, "H": 5, "D": 3},
            "one": {"B": 1, "S": 1, "H": 1, "D": 1},
            "heads": {"B": 1, "S": 4, "H": 32, "D": 16},
            "wide": {"B": 1, "S": 16, "H": 3, "D": 131},
            # D is even and 4 divides H × D, but not D.
            "pairs": {"B": 2, "S": 3, "H": 2, "D": 6},
            "long": {"B": 5, "S": 260, "H": 2, "D": 4},
            # In float32, 1 / 41 times 41 is less than 1, and so it is with 47 and with 107.
            "inexact": {"B": 2, "S": 41, "H": 2, "D": 47},
            "not exact either": {"B": 1, "S": 2, "H": 41, "D": 107},
            # More than 2²⁴: there are numbers of elements that no float holds. And more positions than a short counts.
            "many": {"B": 1, "S": 33_007, "H": 2, "D": 257, "numbered": True},
            # And nearly 2²⁹, where a quotient in float is off by more than one.
            "ends": {"B": 1, "S": 89_478_400, "H": 2, "D": 3, "ends": True},
        },
        unwatched=("many", "ends"),
        drawn={
            "even": {"B": range(1, 4), "S": range(40, 97, 8), "H": range(2, 4), "D": range(8, 65, 8)},
            "odd": {"B": range(1, 5), "S": range(2, 40), "H": range(2, 9), "D": range(1, 20)},
            "heads": {"S": range(64, 97, 32), "H": range(33, 65), "D": range(48, 97, 16)},
            "long": {"B": range(4, 10), "S": range(257, 400), "H": range(1, 5), "D": range(1, 5)},
            # Rows enough for four requests each to be two for every warp of the launch.
            "wide": {"S": range(16, 33), "H": range(2, 9), "D": range(97, 120, 2)},
        },
        properties=(
            properties.stays_inside(
                hint={
                    "misaligned": "A float4 begins at a multiple of four floats, in x and in y. For which sizes does yours?",
                    "": "Is the thread named above a spare one, with a number beyond the last element? Then it must do "
                    "nothing. If not, one of its indices is too large: s has to stay below S, h below H.",
                },
            ),
            properties.finishes(),
            properties.without("race", name="no two threads write different values to one element"),
            properties.written(
                "every element of y is written",
                hint="A thread finds its element from blockIdx.x, blockDim.x, threadIdx.x.",
            ),
            _same(
                "even",
                name="y[b, h, s, d] is x[b, s, h, d]",
                hint="Write out where y[b, h, s, d] lies: ((b * H + h) * S + s) * D + d. And x[b, s, h, d]?",
            ),
            _same(
                "odd",
                "one",
                "wide",
                "pairs",
                "heads",
                "long",
                "inexact",
                "not exact either",
                name="also for sizes that are not powers of two",
                hint="Each size belongs to one index: s counts up to S, h up to H.",
            ),
            _where_written(
                _same(
                    "many",
                    "ends",
                    name="also for millions of elements",
                    hint="A float has 24 bits: of places in the millions, a quotient in float falls into another row. "
                    "Divide ints, and keep s, h and d in ints: a short ends at 32,767.",
                )
            ),
            counters.fewest_sectors(
                "load",
                "x",
                "even",
                "heads",
                ragged=("wide",),
                name="x is read in the fewest sectors",
                advice=_ADVICE,
                hint="Which of the four indices does i % (something) give?",
            ),
            counters.fewest_sectors(
                "store",
                "y",
                "even",
                "heads",
                ragged=("wide",),
                name="y is written in the fewest sectors",
                advice=_ADVICE,
            ),
            load_balance.balanced(
                "y", hint="The launch has a thread for every element. Which elements does the last block take?"
            ),
            counters.at_most(
                "global_load_sectors",
                lambda B, S, H, D: B * S * H * D // 8,
                "even",
                "heads",
                name="nothing else is read",
                advice="y is only written",
            ),
            counters.at_most(
                "atomics",
                lambda **_: 0,
                name="no atomics",
                advice="each element has a thread of its own, and no two have to take turns",
            ),
            scratch_memory.no_scratch_memory(
                name="nothing passes through memory of its own",
                advice="read each element of x where its thread stores it to y",
            ),
        ),
        bench={"B": 4, "S": 2048, "H": 32, "D": 64},
        peer=lambda x, **_: x.transpose(1, 2).contiguous(),
    ),
)
