"""Six kernels, each with a bug of its own kind, that are to be fixed without making them slow."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernels.grading import properties
from kernels.grading.exercise import Call, Exercise, Property, Trial
from kernels.grading.labs.detective import calls
from kernels.grading.properties import counters, termination
from kernels.grading.properties.differences import described


def _blocks(n: int) -> int:
    """Blocks of `distances`, and also tiles."""
    return -(-n // 64)


def _turns(most: Callable[..., int], case: str, name: str, advice: str) -> Property:
    """Wavefronts of shared memory and atomics, one a lane, are at most most(**sizes) together."""

    def broken(trials: Sequence[Trial]) -> str | None:
        trial = next(one for one in trials if one.case == case)
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

    return Property(name, broken, "costs")


def _not_given(trials: Sequence[Trial]) -> str | None:
    for trial in trials:
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


_NO_ATOMICS = counters.at_most(
    "atomics",
    lambda n: 0,
    name="no atomics",
    advice="each result has a thread of its own, and no two have to take turns",
)


def _exercise(
    name: str,
    call: Callable[..., Call],
    cases: dict[str, dict],
    drawn: dict[str, dict[str, range]],
    *of_its_own: Property,
    unwatched: tuple[str, ...] = (),
) -> Exercise:
    come = (
        "All threads of the block must reach a barrier, and all lanes that a shuffle's mask names must take part in it."
    )
    every = properties.stays_inside(), termination.reaches_barriers(hint=come), termination.finishes()
    judged = (*every, *of_its_own)
    return Exercise(
        name=name, language="cuda", call=call, cases=cases, drawn=drawn, unwatched=unwatched, properties=judged
    )


EXERCISES = (
    _exercise(
        "smooth",
        calls.smooth,
        {"even": {"n": 256}, "odd": {"n": 1000}, "one": {"n": 1}},
        {"even": {"n": range(256, 4097, 128)}, "odd": {"n": range(129, 1000)}},
        properties.ordered(
            hint="Which 130 elements does the last line read, and which are written? Count both for thread 127."
        ),
        properties.right("even", name="y[i] is the mean of three"),
        properties.right("odd", "one", name="also where a block extends past the end"),
        counters.fewest_sectors(
            "load",
            "x",
            "even",
            name="x is read about once",
            advice="a neighbour's element is in shared memory",
            times=1.5,
        ),
        counters.at_most(
            "barriers", lambda n: -(-n // 128), name="one barrier a block", advice="it is not a barrier that is missing"
        ),
        _NO_ATOMICS,
    ),
    _exercise(
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
            hint="Follow a block of 6 with pencil and paper: which thread adds which element, at half = 3, and then?",
        ),
        _turns(
            lambda M, T: M * T // 2,
            "three warps",
            name="the threads share the additions",
            advice="let half of the values be added to the other half in each step",
        ),
        counters.at_most(
            "barriers",
            lambda M, T: M * (2 + (T - 1).bit_length()),
            name="one barrier a step",
            advice="one barrier before the next step is enough",
        ),
    ),
    _exercise(
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
    _exercise(
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
        _NO_ATOMICS,
        unwatched=("long",),
    ),
    _exercise(
        "running_sum",
        calls.running_sum,
        {"even": {"n": 256}, "odd": {"n": 200}, "few": {"n": 5}},
        {"even": {"n": range(4096, 8193, 128)}, "odd": {"n": range(129, 600)}},
        properties.ordered(hint="Each block has its own stretches of y."),
        _GIVEN,
        properties.right("even", name="y[i] is the sum of its stretch, from the first element to i"),
        properties.right("odd", "few", name="also where a stretch is not full"),
        counters.at_most(
            ("shared_store_wavefronts", "atomics"),
            lambda n: 0,
            name="the sums are still passed by shuffles",
            advice="within a warp, registers can be passed directly",
        ),
        counters.at_most(
            "shuffles",
            lambda n: 10 * 4 * -(-n // 128),  # of four warps a block
            name="as many shuffles as it takes steps",
            advice="a sum of 2, 4, 8, 16 and 32 elements: five steps, each with one shuffle",
        ),
        counters.at_most(
            "global_load_requests",
            lambda n: -(-n // 32),
            name="x is read once",
            advice="each lane has its element in a register",
        ),
    ),
    _exercise(
        "first_largest",
        calls.first_largest,
        {
            "all different": {"M": 3, "N": 304, "values": 1 << 24},
            "ties": {"M": 4, "N": 333, "values": 10},
            "all alike": {"M": 2, "N": 128, "values": 1},
            "one": {"M": 2, "N": 1, "values": 10},
            "long": {"M": 1, "N": 70_000, "values": 1 << 24},
            "far": {"M": 1, "N": (1 << 24) + 2, "values": 0},  # no float has the last place
        },
        {"all different": {"N": range(4000, 8000)}, "ties": {"M": range(1, 6), "N": range(129, 600)}},
        properties.ordered(
            hint="Two threads find the same largest value at different positions. What does each do with `first`?"
        ),
        properties.right("all different", name="where[m] is the position of the largest value of row m"),
        properties.right("ties", "all alike", "one", name="of equal values, the first"),
        properties.right(
            "long",
            "far",
            name="also in a row of many thousand elements",
            hint="How large is the largest position?",
        ),
        counters.at_most(
            "global_load_requests",
            lambda M, N, values: 2 * M * -(-N // 32),
            name="the threads share the row",
            advice="32 lanes that read neighbours are one request",
        ),
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
        unwatched=("far",),
    ),
)
