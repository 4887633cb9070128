"""A part of the keys, in pages: what must be left of it, what may be read, and how often."""

from __future__ import annotations

from collections.abc import Sequence

from kernels.grading import properties
from kernels.grading.exercise import Exercise, Property, Trial
from kernels.grading.labs.paged_decode.calls import LIGHT_LIKES, LIKES, PRELUDE, call
from kernels.grading.labs.paged_decode.costs import requests
from kernels.grading.properties import counters, known_mistakes, load_balance, scratch_memory, termination
from kernels.grading.properties.differences import described
from kernels.grading.properties.wide_index import PRODUCTS, also_far, size_t
from kernels.hardware import SECTOR_BYTES, WARP
from kernels.lens.rendering import in_words


def _live(trial: Trial) -> int:
    return int(trial.call.args["lengths"].sum())


def _poisoned(trials: Sequence[Trial]) -> str | None:
    """The first NaN of a part that has keys."""
    for trial in (one for one in trials if one.case != "ends"):  # nothing lies behind its lengths
        some = trial.call.expected["sums"] > 0
        for output, values in trial.outputs.items():
            nan = values.isnan() & some.view(*some.shape, *[1] * (values.ndim - 2))
            if nan.any():
                s, part, *_ = nan.nonzero()[0].tolist()
                return (
                    f"{described(output, nan, 'is', 'are')} NaN, which is what k and v hold where there is no key: part {part} "
                    f"begins at key {part * trial.sizes['keys']}, and sequence {s} has {int(trial.call.args['lengths'][s])}, "
                    f"in pages of {trial.sizes['rows']}\n(with {trial.where})"
                )
    return None


def _right(output: str, name: str, hint: str) -> Property:
    return known_mistakes.right(output, cases=("even",), name=name, likes=LIKES, hint=hint)


def _sectors(trial: Trial) -> str | None:
    """Those of k and v are those of the keys, each of whose rows fills its own."""
    fewest = _live(trial) * trial.sizes["D"] * 4 // SECTOR_BYTES
    for array in "kv":
        found = [one for one in trial.accesses if one.kind != "store" and array in one.names]
        if (moved := sum(one.sectors for one in found)) > fewest:
            worst = max(found, key=lambda one: (one.sectors - one.fewest_sectors, one.sectors))
            return f"{in_words(worst, array)}\n{moved:,} sectors of {array} are read, and {_live(trial):,} keys have {fewest:,}"
    return None


def _barriers(S: int, D: int, keys: int, parts: int, **_: int) -> int:
    return S * parts * (D // WARP + 4 * (1 + -(-keys // 16)))


PART_OF_KEYS = Exercise(
    name="part_of_keys",
    language="cuda",
    call=call,
    cases={
        "even": {"S": 2, "D": 64, "rows": 16, "keys": 64, "parts": 2, "kind": "full"},
        "odd": {"S": 3, "D": 64, "rows": 41, "keys": 45, "parts": 3},
        "empty": {"S": 4, "D": 32, "rows": 4, "keys": 20, "parts": 4, "kind": "empty"},
        "wide": {"S": 2, "D": 160, "rows": 5, "keys": 37, "parts": 2},
        "narrow": {"S": 3, "D": 32, "rows": 7, "keys": 9, "parts": 5},
        "one": {"S": 1, "D": 1024, "rows": 1, "keys": 1, "parts": 2, "kind": "huge"},
        "beyond": {"S": 2, "D": 32, "rows": 8, "keys": 1 << 30, "parts": 5, "kind": "beyond"},
        "long": {"S": 1, "D": 32, "rows": 64, "keys": 13_000, "parts": 1, "kind": "light"},
        "far": {"S": 1, "D": 32, "rows": 8, "keys": 20, "parts": 2, "kind": "full", "far": True},
        "ends": {"S": 4_097, "D": 1024, "rows": 1, "keys": 1, "parts": 1_280, "kind": "ends"},
    },
    drawn={
        "even": {"S": range(1, 4), "keys": range(32, 97, 16)},
        "odd": {"rows": range(9, 17), "keys": range(34, 60), "parts": range(2, 4)},
        "empty": {"rows": range(3, 7), "keys": range(10, 21)},
        "wide": {"D": range(96, 257, 32), "rows": range(3, 9), "keys": range(33, 50)},
        "narrow": {"rows": range(3, 11), "keys": range(5, 12)},
    },
    prelude=PRELUDE,
    unwatched=("far", "ends"),
    properties=(
        properties.stays_inside(
            {
                "kind = beyond": f"Where does the part begin? {PRODUCTS}",
                "": "A part ends where its keys do, or the sequence. Which page has key j: table[s * width + j / rows]? Behind "
                "the last page the table holds anything.",
            }
        ),
        termination.reaches_barriers(
            "Every thread of the block comes to every barrier, every lane of a warp to every shuffle."
        ),
        termination.finishes(),
        properties.without(
            *("race", "uninitialised read"),
            name="no race, and no uninitialised read",
            hint={
                "uninitialised": "Which scores has this tile? The last may be short. And which lanes write them?",
                "": "What stands between writing a score and reading it, and between reading it and the next tile's?",
            },
        ),
        properties.written("every result is written", "Also by a block whose part has no keys."),
        _right(
            "largest", "largest is the largest score of the part", "Which keys has part p? All lanes need the product."
        ),
        _right(
            *("sums", "sums is the sum of exponentials, below the largest"),
            "When a larger score comes, all that was added before is multiplied by e to the power of old less new.",
        ),
        _right(
            *("values", "values is the sum of rows of v, by the same exponentials"),
            "They fade when the sum does, and by as much. Whose weight is it?",
        ),
        Property(
            *("what lies behind the length takes no part", _poisoned, "right"),
            "The last page has rows that are no keys, and so may the last tile. A weight of 0 does not help: 0 · NaN is NaN.",
        ),
        properties.right(
            *("odd", "wide", "narrow", "one"),
            name="also for parts that begin within a page, and for any D",
            hint={
                "kind = huge": "A score may be any float, so that m can begin with nothing above LOWEST. And D is up to 1,024.",
                "": "Key j is row j % rows of page table[s * width + j / rows], in ints, and j counts from the sequence's "
                "first key.",
            },
        ),
        properties.right(
            "empty",
            "beyond",
            name="a part without keys leaves the lowest float, 0 and zeros",
            hint={
                "kind = beyond": f"Where does the part begin? {PRODUCTS}",
                "": "With what do the largest score, the sum and the values begin, before any key has come?",
            },
        ),
        known_mistakes.right(
            *("largest", "sums", "values"),
            cases=("long",),
            name="also for a part of 13,000 keys",
            likes=LIGHT_LIKES,
            hint="How many scores do you keep at a time? And every weight counts, however small beside the first key's.",
        ),
        counters.counted(
            *("k and v are read once, in the fewest sectors", ("even",), _sectors),
            "Neighbouring lanes read neighbouring features of one key, and nobody reads it again.",
        ),
        counters.counted(
            *("nothing behind the length is read", ("odd", "wide", "narrow", "empty"), _sectors),
            "The last page's other rows are no keys yet: do not load them, rather than give them a weight of 0.",
        ),
        requests(
            *("the lanes of a warp work together", ("k", "v")),
            lambda trial: 2 * _live(trial) * trial.sizes["D"] // WARP,
            "32 lanes take 32 features of a row at once",
        ),
        requests(
            *("the table is looked up once a key and warp", ("table",)),
            lambda trial: _live(trial) * (trial.sizes["D"] // WARP + 1),
            "all features of a key are in the same row",
        ),
        counters.at_most(
            *("barriers", _barriers),
            name="no barrier for each key",
            advice="the lanes of a warp find a product by shuffles, and wait for nobody",
        ),
        load_balance.balanced(
            *("k", "even"), slack=1.5, name="all warps read keys", hint="Warp w takes every W-th key."
        ),
        load_balance.balanced(
            *("v", "even"), slack=1.5, name="all warps read values", hint="Thread d has feature d of v."
        ),
        counters.at_most(
            "atomics", lambda **_: 0, name="no atomics", advice="a part has one block, a feature one thread"
        ),
        scratch_memory.no_scratch_memory(
            name="there is no other memory", advice="a tile's scores fit into shared memory"
        ),
        also_far("far", name="also where a page's place needs 64 bits", hint=size_t("page * stride")),
        also_far(
            *("ends",),
            name="also for millions of parts",
            hint="Only the first block and the last run. " + size_t("at * D"),
        ),
    ),
)
