"""What a learner gets for a submission that passes: its counters beside those of our solution, and what comes next."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from kernels.grading.exercise import Exercise
from kernels.grading.judging import judge
from kernels.grading.judging.report import Report
from kernels.grading.labs import LABS, exercise, labs
from kernels.grading.notebooks import read_submissions

# Of a trace's totals: what they are to a reader.
_COUNTERS = {
    "launches": "launches",
    "global_load_sectors": "sectors read",
    "global_store_sectors": "sectors written",
    "global_atomic_sectors": "sectors of atomic operations",
    "shared_load_wavefronts": "shared-memory wavefronts, reading",
    "shared_store_wavefronts": "shared-memory wavefronts, writing",
    "barriers": "barriers",
}


def graded(asked: Exercise, source: str, say: Callable[[str], object] = lambda doing: None) -> Report:
    """`judge.grade`; for a submission that passes also what comes next and, unless it is a drill, the counters of a case."""
    report = judge.grade(asked, source, say)
    if not report.passed:
        return report
    if asked.at_once:  # a drill: its counters say nothing to a beginner
        return replace(report, following=following(asked.name))
    say("comparing it with our solution")
    return replace(report, counters=beside(asked.name, source), following=following(asked.name))


def beside(name: str, source: str) -> tuple[tuple[str, int, int], ...]:
    """(counter, yours, the solution's); none where nothing is counted, or the solutions are not at hand."""
    theirs = _solution_totals(name)
    yours = _totals(name, source) if theirs else {}
    both = ((said, yours.get(key, 0), theirs.get(key, 0)) for key, said in _COUNTERS.items())
    return tuple(row for row in both if any(row[1:]))


def following(name: str) -> str:
    """The next exercise of the lab, or the next lab."""
    order = [(lab, one.name) for lab, exercises in labs().items() for one in exercises]
    here = [one for _, one in order].index(name)
    lab, after = order[here + 1] if here + 1 < len(order) else ("", "")
    return after if lab == order[here][0] else f"{lab}.ipynb" if lab else ""


@functools.cache
def _solution_totals(name: str) -> dict[str, int]:
    lab = next(lab for lab, exercises in labs().items() if name in [one.name for one in exercises])
    path = LABS / "solutions" / f"{lab}.ipynb"
    return _totals(name, read_submissions(path)[name]) if path.exists() else {}


def _totals(name: str, source: str) -> dict[str, int]:
    asked = exercise(name)
    if asked.language == "torch":
        return {}
    return judge.trace(asked, source, next(iter(asked.cases))).totals
