"""The histogram: its calls, what each bin becomes, and who adds to it how often."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kernels.grading import properties
from kernels.grading.exercise import Call, Exercise, Property, Trial
from kernels.grading.properties import counters, load_balance, scratch_memory, termination
from kernels.grading.properties.differences import described
from kernels.grading.properties.wide_index import FAR, also_far, size_t
from kernels.hardware import WARP

_UNWATCHED = ("alike", "many blocks", "far")  # each with a property of its own


def _call(random: torch.Generator, M: int, N: int, bins: int, row: int, T: int, G: int, kind: str = "gaps") -> Call:
    """M rows of N values, `row` apart, by G blocks of T threads each. Counts go on from what they hold.

    kind: "all" bins have values; or a third has none, bin 0 among them; or "alike", all values are of the last bin.
    """
    x = torch.randint(bins, (M, N if row == FAR else row), generator=random, dtype=torch.uint8)
    if kind == "gaps" and bins > 2:
        x = torch.where(x % 3 == 0, (x + 1) % (bins - bins % 3), x)
    if kind == "alike":
        x.fill_(bins - 1)
    before = torch.randint(1000, (M, bins), generator=random, dtype=torch.int32)
    counts = before + torch.stack([one[:N].bincount(minlength=bins) for one in x])
    return Call(
        {"counts": before, "x": x if row == FAR else without_last_gap(x, N), "N": N, "bins": bins, "row": row},
        expected={"counts": counts.int()},
        updated=("counts",),
        grid=(G, M),
        block=(T,),
        strides={"x": (row, 1)} if row == FAR else {},
    )


def without_last_gap(x: torch.Tensor, N: int) -> torch.Tensor:
    """Rows of which the first N elements count, one after the other: memory ends with those of the last row."""
    return x.flatten()[: x.numel() - x.shape[1] + N]


def _watched(trials: Sequence[Trial]) -> list[Trial]:
    return [one for one in trials if one.outputs and one.case not in _UNWATCHED]


def _others_left(trials: Sequence[Trial]) -> str | None:
    """A bin that no value has, of any row and between them, is what it was."""
    for trial in _watched(trials):
        was, now = trial.call.args["counts"], trial.outputs["counts"]
        empty = trial.call.args["x"].bincount(minlength=trial.sizes["bins"]) == 0
        changed = empty & (now != was)
        if changed.any():
            m, b = changed.nonzero()[0].tolist()
            return (
                f"{described('counts', changed, 'has', 'have')} changed, and no value is counted there\n"
                f"counts[{m}, {b}]: it was {was[m, b]}, and is {now[m, b]}\n(with {trial.where})"
            )
    return None


def _each_once(trials: Sequence[Trial]) -> str | None:
    """The counts of a row grow by as many as it has values."""
    for trial in _watched(trials):
        N, now = trial.sizes["N"], trial.outputs["counts"].long()
        grown = (now - trial.call.args["counts"]).sum(1)
        if (grown != N).any():
            m = int((grown != N).nonzero()[0])
            wrong = now != trial.call.expected["counts"]
            by = f"{abs(int(grown[m]) - N):,} too {'many' if grown[m] > N else 'few'}"
            return (
                f"row {m} has {N:,} values, and its counts have grown by {int(grown[m]):,}: {by}\n"
                f"{described('counts', wrong, 'is', 'are')} wrong\n(with {trial.where})"
            )
    return None


COUNT_VALUES = Exercise(
    name="count_values",
    language="cuda",
    call=_call,
    cases={
        "even": {"M": 2, "N": 4096, "bins": 64, "row": 4096, "T": 128, "G": 4, "kind": "all"},
        "odd": {"M": 3, "N": 1001, "bins": 60, "row": 1032, "T": 96, "G": 3},
        "few threads": {"M": 2, "N": 777, "bins": 256, "row": 777, "T": 32, "G": 2},
        "many threads": {"M": 1, "N": 2500, "bins": 200, "row": 2501, "T": 1024, "G": 2},
        "short": {"M": 2, "N": 5, "bins": 10, "row": 9, "T": 64, "G": 3},
        "one bin": {"M": 1, "N": 300, "bins": 1, "row": 300, "T": 64, "G": 1},
        "empty": {"M": 2, "N": 0, "bins": 3, "row": 8, "T": 64, "G": 1},
        "alike": {"M": 1, "N": 300_000, "bins": 100, "row": 300_000, "T": 256, "G": 2, "kind": "alike"},
        "many blocks": {"M": 1, "N": 1 << 22, "bins": 7, "row": 1 << 22, "T": 32, "G": 1 << 10, "kind": "alike"},
        "far": {"M": 5, "N": 40, "bins": 16, "row": FAR, "T": 64, "G": 1},
    },
    drawn={
        "even": {"N": range(2176, 4097, 128), "bins": range(33, 129)},
        "odd": {"N": range(500, 1030), "bins": range(40, 90), "T": range(32, 161, 32), "G": range(2, 6)},
        "few threads": {"N": range(500, 777), "bins": range(100, 257)},
        "many threads": {"N": range(2100, 2500), "T": range(544, 1025, 32)},
        "short": {"N": range(1, 10), "bins": range(3, 20)},
    },
    unwatched=_UNWATCHED,
    properties=(
        properties.stays_inside(
            "A loop over values ends at N, also where it loads four at once, one over bins at `bins`. An unsigned char is 0 to "
            "255. And if the access is misaligned: where may a row begin?"
        ),
        termination.reaches_barriers("Every thread of the block comes to a barrier, also one without a value."),
        termination.finishes(),
        properties.without(
            "race",
            name="no race",
            hint={
                "launch twice": "All blocks of a row add to the same counts.",
                "is atomic": "Clearing, counting and adding up are three phases. What stands between two of them?",
                "": "Several threads may have the same value: who else changes this bin?",
            },
        ),
        properties.without(
            "uninitialised read",
            name="no bin is used before it is cleared",
            hint="Which thread clears this bin? There may be more bins than threads.",
        ),
        Property(
            "bins that no value has stay as they are",
            _others_left,
            "writes",
            "With what does a bin of the block begin? And what does a thread count that has no value left?",
        ),
        Property(
            "every value is counted once",
            _each_once,
            "writes",
            {
                "too few": "Which value has no thread? And which bin of a block does nobody add to the counts?",
                "too many": "Which value do two threads count? And how often does a block add a bin to the counts?",
            },
        ),
        properties.right("even", name="counts[m, b] grows by how often b is in row m", hint="Whose row is it?"),
        properties.right(
            "few threads",
            name="also where there are more bins than threads",
            hint="A value may be larger than any thread's number.",
        ),
        properties.right(
            *("odd", "many threads", "short", "one bin", "empty"),
            name="also for rows that lie apart, in blocks of any size",
            hint="Row m begins at m * row.",
        ),
        properties.right(
            *("alike", "many blocks"),
            name="also where one bin takes all values",
            hint={
                "G = 1024": "The product of N and the number of a block may be more than 32 bits hold.",
                "": "A block may count 150,000 alike. How many bits has a bin?",
            },
        ),
        counters.at_most(
            "global atomics",
            lambda M, bins, G, **_: M * G * bins,
            name="at most one global addition a bin and block",
            advice="count in shared memory first, where only a block's own threads wait for each other",
        ),
        counters.at_most(
            "atomics",
            lambda M, N, bins, T, G, **_: M * (N + 2 * G * bins + G * T),
            name="one shared addition a value",
            advice="nothing but the count of its bin changes for a value",
        ),
        counters.fewest_sectors(
            *("load", "x", "even"),
            name="x is read once, in the fewest sectors",
            advice="neighbouring lanes read neighbouring bytes, and each byte is read once",
        ),
        counters.at_most(  # each warp may have its own bins, and clear all 256
            ("shared_store_wavefronts", "shared_load_wavefronts", "global_atomic_requests"),
            lambda M, bins, T, G, **_: M * G * (256 // WARP * T // WARP + -(-bins // WARP) * (2 * T // WARP + 4)),
            name="the threads share clearing and adding up",
            advice="a loop from threadIdx.x in steps of blockDim.x takes 32 bins a warp at once",
        ),
        counters.at_most(
            "barriers",
            lambda M, G, **_: 3 * M * G,
            name="no barrier for each value",
            advice="three phases have two boundaries, and atomics need none between them",
        ),
        load_balance.balanced(
            *("x", "even", "odd"),
            name="all warps of all blocks count",
            slack=1.5,
            hint="The threads of all blocks of a row take turns.",
        ),
        scratch_memory.no_scratch_memory(
            name="there is no other memory", advice="a block's own counts fit into its shared memory"
        ),
        also_far("far", hint=size_t("blockIdx.y * row")),
    ),
)
