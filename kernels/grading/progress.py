"""A learner's best scores, kept beside the working copies of the notebooks: `work/progress.json`."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from kernels.grading.judging.report import Report

WORK = Path(__file__).parents[2] / "work"
_FILE = WORK / "progress.json"


def best() -> dict[str, tuple[int, int]]:
    """Of each exercise that was checked, how many properties held in its best attempt, and of how many."""
    if not _FILE.exists():
        return {}
    kept = json.loads(_FILE.read_text())
    # Before there were scores, this was a list of what is solved.
    return {name: (1, 1) for name in kept} if isinstance(kept, list) else {name: tuple(of) for name, of in kept.items()}


def solved() -> set[str]:
    """The names of the exercises that were ever solved."""
    return {name for name, (held, of) in best().items() if held == of}


def earlier(report: Report) -> str:
    """In words, the best attempt where that was better than this one."""
    held, of = best().get(report.exercise, report.score)
    if report.passed or (held, of) == report.score:
        return ""
    return " You solved this one before." if held == of else f" Your best attempt here: {held} of {of} hold."


def record(report: Report, folder: Path) -> bool:
    """Keep the score of a check of a notebook in `folder`, if that is a working copy: what tests run is no progress.

    An attempt that is worse than an earlier one changes nothing. Returns whether it is a working copy.
    """
    if not folder.resolve().is_relative_to(WORK):
        return False
    scores = best()
    held, of = report.score
    before, before_of = scores.get(report.exercise, (0, of))
    if of and held * before_of >= before * of:
        scores[report.exercise] = held, of
    handle, temporary = tempfile.mkstemp(dir=WORK, prefix="progress-")
    with os.fdopen(handle, "w") as file:
        json.dump(dict(sorted(scores.items())), file)
    os.replace(temporary, _FILE)
    return True
