"""Which rung is checked on which case where there is a minute, not ten: each special case once a level, dtypes in turn."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from kernels.case import Case
from kernels.machine import Machine
from kernels.operation import Variant

COMPILED, MOST = 3, 4
"""Level 3 compiles anew for nearly every case, forward and backward: it gets so many special cases at most."""
FROM_HERE_SLOW, LONG = 4, 50_000
"""Levels 4 and 5 take up to 15 seconds for a case with a dimension that is longer, where there is no GPU."""


def smallest_first(cases: Sequence[Case]) -> list[Case]:
    """The cases by their number of elements, for a search that ends with the first case that is found."""
    return sorted(cases, key=lambda case: math.prod(case.shape))


def selection(
    cases: Sequence[Case], variants: Sequence[Variant], machine: Machine
) -> list[tuple[Case, tuple[Variant, ...]]]:
    """The cases to check, each with the variants to check on it: always the same, spread over dtypes and rungs.

    Cases that differ in their dtype alone are one special case. Each level meets it in one dtype, on one rung that supports
    it; both change from case to case. A case that no rung of a level supports comes with one, to say why.

    Args:
        cases: in any order.
        variants: of any levels, in the order of their ladders.
    """
    chosen: dict[int, tuple[Case, list[Variant]]] = {}
    for level in sorted({variant.level for variant in variants}):
        rungs = [variant for variant in variants if variant.level == level]
        for turn, dtypes in enumerate(_special(cases, level, machine)):
            case = dtypes[(turn + level) % len(dtypes)]
            first = turn + turn // math.lcm(len(dtypes), len(rungs))  # else a rung would meet the same dtypes again
            ladder = [rungs[(first + step) % len(rungs)] for step in range(len(rungs))]
            rung = next((one for one in ladder if not one.unsupported(case, machine)), ladder[0])
            chosen.setdefault(id(case), (case, []))[1].append(rung)
    return [(case, tuple(rungs)) for case, rungs in chosen.values()]


def _special(cases: Sequence[Case], level: int, machine: Machine) -> Iterator[list[Case]]:
    """The special cases of a level, each as the list of its dtypes' cases."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        if machine.device == "cuda" or level < FROM_HERE_SLOW or max(case.shape, default=0) <= LONG:
            found.setdefault(str(replace(case, dtype="float32")), []).append(case)
    step = math.ceil(len(found) / MOST) if level == COMPILED else 1
    yield from list(found.values())[:: max(step, 1)]
