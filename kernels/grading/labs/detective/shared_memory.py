"""Bugs in what a block keeps in shared memory: an edge, a size that is no power of two, bins, tiles."""

from __future__ import annotations

from collections.abc import Callable

from kernels.grading import properties
from kernels.grading.exercise import Property, Trial
from kernels.grading.labs.detective import calls
from kernels.grading.labs.detective.judged import judged
from kernels.grading.properties import counters


def _blocks(n: int) -> int:
    """Blocks of `distances`, and also tiles."""
    return -(-n // 64)


def _turns(most: Callable[..., int], *cases: str, name: str, advice: str) -> Property:
    """Wavefronts of shared memory and atomics, one a lane, are at most most(**sizes) together."""

    def broken(trial: Trial) -> str | None:
        turns = {
            one: one.lanes if one.kind == "atomic" else one.wavefronts
            for one in trial.traces[0].accesses
            if one.space == "shared" or one.kind == "atomic"
        }
        if sum(turns.values()) <= most(**trial.sizes):
            return None
        worst = max(turns, key=turns.__getitem__)
        what = "atomics, one lane after another" if worst.kind == "atomic" else "wavefronts of shared memory"
        return (
            f"{sum(turns.values()):,} wavefronts of shared memory and atomics, where {most(**trial.sizes):,} would do; "
            f"line {worst.line} makes {turns[worst]:,} {what}, with {worst.lanes_per_request:.3g} lanes of a warp at a time; "
            f"{advice}"
        )

    return counters.counted(name, cases, broken, "")


_NO_ATOMICS = counters.at_most(
    "atomics",
    lambda **_: 0,
    name="no atomics",
    advice="each result has a thread of its own, and no two have to take turns",
)

EXERCISES = (
    judged(
        "smooth",
        calls.smooth,
        {
            "even": {"n": 256},
            "odd": {"n": 1000},
            "one": {"n": 1},
            "infinite": {"n": 256, "infinite": True},
            "odd and infinite": {"n": 200, "infinite": True},
            "many": {"n": (1 << 24) + 1280, "ends": True},
        },
        {"even": {"n": range(256, 4097, 128)}, "odd": {"n": range(129, 1000)}},
        properties.ordered(
            hint="Which 130 elements does the last line read, and which are written? Count both for thread 127."
        ),
        properties.right("even", "infinite", name="y[i] is the mean of three"),
        properties.right("odd", "one", "odd and infinite", name="also where a block extends past the end"),
        properties.right(
            "many",
            name="also for millions of elements",
            hint="Only two blocks run: y[1, 0] is the last one's first element.",
        ),
        counters.fewest_sectors(
            "load",
            "x",
            "even",
            name="x is read about once",
            advice="a neighbour's element is in shared memory",
            times=1.5,
        ),
        counters.at_most(
            "barriers",
            lambda n, **_: -(-n // 128),
            name="one barrier a block",
            advice="it is not a barrier that is missing",
        ),
        _NO_ATOMICS,
        unwatched=("many",),
    ),
    judged(
        "row_total",
        calls.row_total,
        {
            "power of two": {"M": 3, "T": 128},
            "three warps": {"M": 4, "T": 96},
            "prime": {"M": 3, "T": 97},
            "one": {"M": 2, "T": 1},
            "ten warps": {"M": 2, "T": 300},
            "nearly all": {"M": 1, "T": 1023},
            "all": {"M": 2, "T": 1024},
            "many": {"M": 30_000_000, "T": 97, "ends": True},  # more elements than an int counts
        },
        {
            "three warps": {"M": range(3, 9), "T": range(96, 513, 32)},
            "prime": {"M": range(1, 5), "T": range(33, 300)},
            "ten warps": {"T": range(289, 1000)},
            "nearly all": {"T": range(513, 1024)},
        },
        properties.ordered(hint="Within a step, no thread may read what another writes."),
        properties.right("power of two", name="y[m] is the sum of row m"),
        properties.right(
            "three warps",
            "prime",
            "one",
            "ten warps",
            "nearly all",
            "all",
            name="for a block of any size",
            hint="Follow a block of 6 with pencil and paper: with which half does it begin, which thread adds which "
            "element, and then?",
        ),
        properties.right(
            "many", name="also for millions of rows", hint="Only two blocks run: y[1] is of the last row."
        ),
        _turns(
            lambda M, T: M * (T // 2 + 12),
            "three warps",
            "prime",
            name="the threads share the additions",
            advice="let half of the values be added to the other half in each step",
        ),
        counters.at_most(
            "barriers",
            lambda M, T: M * (2 + (T - 1).bit_length()),
            name="one barrier a step",
            advice="one barrier before the next step is enough",
        ),
        unwatched=("many",),
    ),
    judged(
        "histogram",
        calls.histogram,
        {
            "many": {"n": 4096, "values": 256},
            "odd": {"n": 333, "values": 256},
            "few": {"n": 5, "values": 256},
            "alike": {"n": 200_000, "values": 1},
        },
        {"many": {"n": range(10_000, 20_000)}, "odd": {"n": range(129, 2000)}},
        properties.without(
            "race",
            name="no race",
            hint="Clearing, counting and copying out are three phases. What stands between two of them?",
        ),
        properties.without(
            "uninitialised read",
            name="no bin is used before it is cleared",
            hint="How many threads has the block, and how many bins?",
        ),
        properties.right("many", name="counts[block, b] is how often b occurs"),
        properties.right("odd", "few", name="also for a few numbers"),
        properties.right("alike", name="also where one number occurs very often"),
        counters.at_most(
            "shared_store_wavefronts",
            lambda n, values: 3 * 32,  # 256 bins for each of the four warps
            "many",
            "odd",
            "few",
            name="the threads share the clearing",
            advice="a warp writes 32 neighbouring bins at once",
        ),
        counters.at_most(
            ("atomics", "global_atomic_requests"),
            lambda n, values: n,
            "many",
            "odd",
            "few",
            name="an atomic in shared memory for each number, and no other",
            advice="nothing else is updated by several threads at once",
        ),
        counters.at_most(
            "barriers", lambda n, values: 3 * 2, name="two barriers a block", advice="three phases have two boundaries"
        ),
    ),
    judged(
        "distances",
        calls.distances,
        {"one tile": {"n": 64}, "tiles": {"n": 256}, "odd": {"n": 200}, "few": {"n": 7}, "long": {"n": 4_160}},
        {"tiles": {"n": range(320, 641, 64)}, "odd": {"n": range(65, 300)}},
        properties.ordered(
            hint="Let one warp be much faster than the other. Where does it go next, and what does it do there?"
        ),
        properties.right(
            "one tile",
            "tiles",
            name="y[i] is the sum of the distances to all points",
            hint="What does `sum` hold at first? A variable without an initial value holds anything, on the CPU something like "
            "-1.7e38 or NaN. And which elements of x have been in `tile` by the end?",
        ),
        properties.right("odd", "few", name="also where the last tile is not full"),
        properties.right("long", name="also for 4,160 points", hint="One tile at a time is enough."),
        counters.at_most(
            ("global_load_requests", "global_atomic_requests"),
            lambda n: 4 * _blocks(n) * (_blocks(n) + 1),
            name="x still goes through the tile",
            advice="64 threads need each element: one of them reads it for all",
        ),
        counters.at_most(
            "barriers",
            lambda n: 2 * _blocks(n) ** 2,
            name="at most two barriers a tile",
            advice="within a tile the threads only read: none need wait",
        ),
        counters.no_bank_conflicts(
            name="no bank conflicts in the tile", advice="neighbouring threads should write neighbours"
        ),
        _NO_ATOMICS,
        unwatched=("long",),
    ),
)
