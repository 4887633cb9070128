"""Bugs in what threads pass to each other, by shuffles and by atomics."""

from __future__ import annotations

from collections.abc import Sequence

from kernels.grading import properties
from kernels.grading.exercise import Property, Trial
from kernels.grading.labs.detective import calls
from kernels.grading.labs.detective.judged import judged
from kernels.grading.properties import counters, load_balance
from kernels.grading.properties.differences import described


def _not_given(trials: Sequence[Trial]) -> str | None:
    for trial in (one for one in trials if one.case != "infinite"):  # that has a property of its own
        y = trial.outputs["y"]
        if y.isnan().any():
            return (
                f"{described('y', y.isnan(), 'is', 'are')} NaN: never written, or made of a shuffle from a lane that did not "
                "take part. What such a shuffle gives is undefined; here it is NaN"
            )
    return None


_GIVEN = Property(
    "no sum includes a value that no lane provided",
    _not_given,
    "writes",
    hint="Which lane is read at apart = 1 by lane 1? Does it take part in the shuffle, and does the mask name it?",
)


def _exchanged(trials: Sequence[Trial]) -> str | None:
    """The first line on which several threads of a block exchange; one may, to set the first place."""
    for trial in trials:
        for trace in trial.traces:
            lines: dict[int | str, str] = dict(enumerate(trace.source.splitlines(), start=1))
            for one in trace.accesses:
                line = lines.get(one.line, "")
                if one.kind == "atomic" and "atomicExch" in line and one.lanes > trial.sizes["M"]:
                    return f"line {one.line}: {line.strip()}\n(with {trial.where})"
    return None


_FOUND_STAYS = Property(
    "no thread overwrites what another has found",
    _exchanged,
    "right",
    hint="Between what one atomic returns and a thread's next line, other threads have their turns. An exchange puts an older "
    "find in the place of theirs, if only rarely; atomicMin compares and writes in one step.",
)

EXERCISES = (
    judged(
        "running_sum",
        calls.running_sum,
        {"even": {"n": 256}, "odd": {"n": 200}, "few": {"n": 5}, "infinite": {"n": 128, "infinite": True}},
        {"even": {"n": range(4096, 8193, 128)}, "odd": {"n": range(129, 600)}},
        properties.ordered(hint="Each block has its own stretches of y."),
        _GIVEN,
        properties.right("even", name="y[i] is the sum of its stretch, from the first element to i"),
        properties.right("odd", "few", name="also where a stretch is not full"),
        properties.right(
            "infinite",
            name="also where an element is infinite",
            hint="0 times infinity is NaN: a lane that has nothing to add must not add a product with 0.",
        ),
        counters.at_most(
            ("shared_store_wavefronts", "atomics"),
            lambda **_: 0,
            name="the sums are still passed by shuffles",
            advice="within a warp, registers can be passed directly",
        ),
        counters.at_most(
            "barriers", lambda **_: 0, name="no barrier", advice="a shuffle brings the lanes of its warp together"
        ),
        counters.at_most(
            "shuffles",
            lambda n, **_: 6 * 4 * -(-n // 128),  # of four warps a block, with one to ask who takes part
            name="as many shuffles as it takes steps",
            advice="a sum of 2, 4, 8, 16 and 32 elements: five steps, each with one shuffle",
        ),
        counters.at_most(
            "global_load_requests",
            lambda n, **_: -(-n // 32),
            name="x is read once",
            advice="each lane has its element in a register",
        ),
    ),
    judged(
        "first_largest",
        calls.first_largest,
        {
            "all different": {"M": 3, "N": 304, "values": 1 << 24},
            "ties": {"M": 4, "N": 333, "values": 10},
            "all alike": {"M": 2, "N": 128, "values": 1},
            "one": {"M": 2, "N": 1, "values": 10},
            "long": {"M": 1, "N": 70_000, "values": 1 << 24},
            "far": {"M": 1, "N": (1 << 24) + 2, "values": 0},  # no float has the last place
            "many": {
                "M": 40_000_000,
                "N": 128,
                "values": 10,
                "ends": True,
            },  # more elements than an unsigned int counts
        },
        {"all different": {"N": range(4000, 8000)}, "ties": {"M": range(1, 6), "N": range(129, 600)}},
        properties.ordered(
            hint="Two threads find the same largest value at different positions. What does each do with `first`? It does so "
            "in one round of the loop, so that no barrier comes between."
        ),
        properties.right("all different", name="where[m] is the position of the largest value of row m"),
        properties.right("ties", "all alike", "one", name="of equal values, the first"),
        _FOUND_STAYS,
        properties.right(
            "long",
            "far",
            name="also in a row of many thousand elements",
            hint="How large is the largest position?",
        ),
        properties.right(
            "many", name="also for millions of rows", hint="Only two blocks run: where[1] is of the last row."
        ),
        counters.at_most(
            "global_load_requests",
            lambda M, N, values: 2 * M * -(-N // 32),
            name="the threads share the row",
            advice="32 lanes that read neighbours are one request",
        ),
        load_balance.balanced("x", "all different", "ties", name="the warps share the row", slack=2),
        counters.at_most(
            "barriers",
            lambda M, N, values: 3 * M,
            name="at most three barriers a row",
            advice="a barrier does not decide between threads that have no order",
        ),
        counters.at_most(
            "atomics",
            lambda M, N, values: 2 * M * max(N, 128),  # each thread may have one, with an element or without
            name="at most two atomics an element",
            advice="one for the largest value, and one for its position",
        ),
        unwatched=("far", "many"),
    ),
)
