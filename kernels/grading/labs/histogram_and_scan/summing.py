"""The cumulative sum: its calls, and each sum as the one before it and an element, wherever the two meet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernels.grading import properties
from kernels.grading.exercise import Call, Exercise, Property, Trial
from kernels.grading.far_apart import ends_only
from kernels.grading.labs.histogram_and_scan.counting import without_last_gap
from kernels.grading.properties import counters, load_balance, scratch_memory, termination
from kernels.grading.properties.known_mistakes import LIKE
from kernels.grading.properties.wide_index import BEYOND, FAR, also_far, size_t
from kernels.hardware import WARP

_OWN = ("large", "far", "ends")  # cases with a property of their own


def _call(random: torch.Generator, M: int, N: int, row: int, T: int, kind: str = "small") -> Call:
    """M rows of N elements, `row` apart in x, a block of T threads each.

    kind: of "large" ones, a few exceed an int; of "ends", only the first and the last row are there.
    """
    low, high = (2**30, 2**31 - 1) if kind == "large" else (1, 100)
    rows = 2 if kind == "ends" else M
    x = torch.randint(low, high, (rows, N if row == FAR else row), generator=random, dtype=torch.int32)
    apart: dict[str, Any] = {"strides": {"x": (row, 1)}} if row == FAR else {}
    if kind == "ends":
        apart = ends_only(M, x=(row,), y=(N,))
    return Call(
        {
            "y": torch.empty(rows, N, dtype=torch.int64),
            "x": x if apart else without_last_gap(x, N),
            "N": N,
            "row": row,
        },
        expected={"y": x[:, :N].long().cumsum(1)},
        grid=(M,),
        block=(T,),
        **apart,
    )


def _turns(N: int, T: int) -> int:
    """How often a block goes on, and one more for what comes before or after."""
    return -(-N // T) + 1


def _anew(x: torch.Tensor, width: int) -> torch.Tensor:
    return torch.cat([part.cumsum(1) for part in x.split(width, 1)], 1)


# What the sums may be taken for; each a function of the rows' elements and the threads of a block.
_LIKES: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "an exclusive sum, which leaves out its own element": lambda x, T: x.cumsum(1) - x,
    "each warp by itself: the totals of the warps before it are not added": lambda x, T: _anew(x, WARP),
    "the sums of the first row, for all": lambda x, T: x[:1].cumsum(1).expand_as(x),
    "each turn by itself: the carried sum is not added": _anew,
}


def _steps(name: str, where: str, chosen: Callable[[torch.Tensor, int], torch.Tensor], hint: str) -> Property:
    """y[j] is y[j − 1] + x[j] at the j that `chosen(j, threads)` names. where: what they are."""

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in trials:
            if not trial.outputs or trial.case in _OWN:
                continue
            (M, N, row, T), y = (trial.sizes[of] for of in ("M", "N", "row", "T")), trial.outputs["y"]
            x = trial.call.args["x"].as_strided((M, N), (row, 1)).long()
            before = torch.nn.functional.pad(y, (1, 0))[:, :N]
            wrong = (y - before != x) & (at := chosen(torch.arange(N), T))
            if not wrong.any():
                continue
            m, j = wrong.nonzero()[0].tolist()
            last = f"y[{m}, {j - 1}] is {y[m, j - 1]}, and " if j else ""
            message = (
                f"y[j], {where}: {int(wrong.sum()):,} of {len(x) * int(at.sum()):,} are wrong\n"
                f"y[{m}, {j}]: got {y[m, j]}, expected {before[m, j] + x[m, j]}: {last}x[{m}, {j}] is {x[m, j]}\n"
                f"(with {trial.where})"
            )
            looks = (said for said, values in _LIKES.items() if torch.equal(values(x, T), y))
            return f"{message}\n{LIKE}{like}." if (like := next(looks, None)) else message
        return None

    return Property(name, broken, "writes", hint)


def _alone(trial: Trial) -> str | None:
    """Loads by one lane of a warp, line by line, are at most two a turn."""
    alone = [one for one in trial.accesses if one.kind == "load" and one.lanes == one.requests]
    most = 2 * trial.sizes["M"] * _turns(trial.sizes["N"], trial.sizes["T"])
    if sum(one.requests for one in alone) <= most:
        return None
    worst = max(alone, key=lambda one: one.requests)
    return (
        f"line {worst.line} reads {', '.join(worst.names)} with one lane at a time, {worst.requests:,} times, where {most:,} "
        "would be plenty: while one thread adds, the others wait"
    )


CUMULATIVE_SUMS = Exercise(
    name="cumulative_sums",
    language="cuda",
    call=_call,
    cases={
        "even": {"M": 2, "N": 1024, "row": 1024, "T": 256},
        "odd": {"M": 3, "N": 777, "row": 790, "T": 96},
        "one warp": {"M": 2, "N": 100, "row": 100, "T": 32},
        "many threads": {"M": 1, "N": 2500, "row": 2500, "T": 1024},
        "short": {"M": 2, "N": 5, "row": 8, "T": 128},
        "empty": {"M": 2, "N": 0, "row": 8, "T": 64},
        "large": {"M": 2, "N": 300, "row": 301, "T": 128, "kind": "large"},
        "far": {"M": 5, "N": 40, "row": FAR, "T": 64},
        "ends": {"M": BEYOND // 40, "N": 40, "row": 40, "T": 64, "kind": "ends"},
    },
    drawn={
        "even": {"M": range(1, 4), "N": range(768, 1025, 256)},
        "odd": {"M": range(1, 5), "N": range(500, 790), "T": range(64, 161, 32)},
        "one warp": {"N": range(33, 101)},
        "many threads": {"N": range(2100, 2500), "T": range(544, 1025, 32)},
        "short": {"N": range(1, 9)},
        "large": {"N": range(150, 300)},
    },
    unwatched=("far", "ends"),
    properties=(
        properties.stays_inside(
            "In the last turn some threads are past the end of the row: guard the load and the store. Rows of x begin `row` "
            "apart, those of y N. How many warps may a block have? And if the access is misaligned: where may a row begin?"
        ),
        termination.reaches_barriers(
            "Threads past the end of the row take part in every shuffle, too, and come to every barrier."
        ),
        termination.finishes(),
        properties.without(
            *("race", "uninitialised read"),
            name="no race, and no uninitialised read",
            hint={
                "uninitialised": "Which lane leaves this total? Its warp may have few elements, or none.",
                "writes it": "A warp has one total, and a row its own place in y. Who else writes there?",
                "": "What stands between writing a total and reading it, and between reading it and the next turn's?",
            },
        ),
        properties.written("every element of y is written", "Which thread has this element, and in which turn?"),
        _steps(
            "within a warp each sum is the one before and x[j]",
            "not of a warp's first lane",
            lambda j, T: j % WARP > 0,
            "In five steps a lane takes what the lane 1, 2, 4, 8, 16 below it holds. Who has none so far below? The mask names "
            "all 32, and all come. And what is carried is the same for all of them.",
        ),
        _steps(
            "from warp to warp the sum goes on",
            "of a warp's first lane, but for the block's first warp",
            lambda j, T: (j % WARP == 0) & (j % T > 0),
            "Which lane holds the total of its warp? And a warp adds the totals of those before it, without its own.",
        ),
        _steps(
            "from turn to turn the sum goes on",
            "of a block's first thread, from its second turn on",
            lambda j, T: (j % T == 0) & (j > 0),
            "The carried sum grows by the totals of all warps of the block, once a turn, and every thread adds it.",
        ),
        _steps(
            "the first sum of a row is its first element",
            "j = 0",
            lambda j, T: j == 0,
            "With what does the carried sum begin, in every block and at every launch?",
        ),
        properties.right("large", name="also where a sum exceeds an int", hint="Which variable or array is an int?"),
        counters.counted(
            "no thread adds up for the others",
            (),
            _alone,
            "A warp adds up by shuffles, and of the totals each thread those that it needs.",
        ),
        counters.fewest_sectors(
            *("load", "x", "even"),
            ragged=("odd", "many threads"),
            name="x is read once, in the fewest sectors",
            advice="neighbouring lanes read neighbouring elements, and each element is read once",
        ),
        counters.fewest_sectors(
            *("store", "y", "even"),
            ragged=("odd", "many threads"),
            name="y is written once, in the fewest sectors",
            advice="store a sum when it is complete",
        ),
        counters.at_most(
            "shared_store_wavefronts",
            lambda M, N, T, **_: M * _turns(N, T) * (T // WARP + 4),
            name="a warp leaves one total in shared memory",
            advice="within a warp, pass sums by shuffles",
        ),
        counters.at_most(
            "shared_load_wavefronts",  # 8 bytes are two of them
            lambda M, N, T, **_: M * _turns(N, T) * T // WARP * 2 * (T // WARP + 4),
            name="no total is read again and again",
            advice="in a turn, a warp reads the total of each warp once",
        ),
        counters.at_most(
            "shuffles",
            lambda M, N, T, **_: M * _turns(N, T) * T // WARP * 12,
            name="five steps within a warp",
            advice="a sum of 2, 4, 8, 16 and 32 lanes: one shuffle each, and as many again for the totals",
        ),
        counters.at_most("atomics", lambda **_: 0, name="no atomics", advice="each sum has a thread of its own"),
        counters.at_most(
            "barriers",
            lambda M, N, T, **_: 3 * M * _turns(N, T),
            name="at most three barriers a turn",
            advice="the lanes of a warp need none between them",
        ),
        load_balance.balanced(
            *("x", "even", "many threads"),
            name="all warps of all blocks take part",
            slack=1.5,
            hint="A block takes blockDim.x elements of its row in a turn.",
        ),
        scratch_memory.no_scratch_memory(
            name="there is no other memory",
            advice="warps pass totals in shared memory",
        ),
        also_far("far", "ends", hint=size_t("blockIdx.x * row")),
    ),
)
