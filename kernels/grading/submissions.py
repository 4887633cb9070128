"""Submissions: the text of a cell that begins with `%%cuda NAME`, `%%triton NAME` or `%%torch NAME`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.grading import progress
from kernels.grading.judging import judge, process
from kernels.grading.judging.report import Report
from kernels.grading.judging.speed import race, speed_fraction
from kernels.grading.labs import exercise, labs
from kernels.grading.notebooks import LANGUAGES
from kernels.grading.status_line import status_line
from kernels.lens import Launches, Trace
from kernels.measure.race import Race

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_submitted: dict[str, str] = {}


class Interrupted(KeyboardInterrupt):
    """A check that was interrupted. A notebook shows what it says, and none of the lines that it broke off in."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def submit(language: str, name: str, text: str) -> Report:
    """Take a text as the submission of an exercise and compile it. ValueError: there is no such exercise."""
    wanted = exercise(name).language
    if language != wanted:
        raise ValueError(f"{name} is an exercise in %%{wanted}, got %%{language}")
    _submitted[name] = text
    return process.ask("compile", name, text)


def check(name: str) -> Report:
    """Check what was submitted last for an exercise: the text of its cell when that was run, not of what it is now.

    Returns a report that shows itself: the properties that hold and those that do not, with what is wrong.
    ValueError: there is no such exercise.
    """
    if name not in _submitted:
        return Report(name, refused=_missing(name))
    try:
        with status_line(name) as say:
            report = process.ask("grade", name, _submitted[name], say)
    except KeyboardInterrupt:
        raise Interrupted(f"{name}: interrupted, so nothing was judged") from None
    if progress.record(report, Path.cwd()):
        every = sum(map(len, labs().values()))
        print(f"Exercises solved so far: {len(progress.solved())} of {every}.{progress.earlier(report)}")
    return report


def trace(name: str, case: str | None = None) -> Trace | Launches:
    """What the lens sees of what was submitted last for an exercise: line by line, on the values that `check` tries first.

    case: of the exercise's cases; by default the first. ValueError: there is no such exercise or case, or nothing was
    submitted. RuntimeError: the submission cannot be tried, or did not come to a launch.
    """
    asked = exercise(name)
    case = case or next(iter(asked.cases))
    if case not in asked.cases:
        raise ValueError(f"case: got {case!r}, expected one of {', '.join(asked.cases)}")
    if name not in _submitted:
        raise ValueError(_missing(name))
    return judge.trace(asked, _submitted[name], case)


def speed(name: str) -> Race | Report:
    """What was submitted last for an exercise, timed on a GPU beside PyTorch's own way; or a report of why there is no time.

    On a GPU that our solution was timed on, the table says what part of its speed is reached.
    ValueError: there is no such exercise.
    """
    raced = race(name, _submitted[name]) if name in _submitted else _missing(name)
    if isinstance(raced, str):
        return Report(name, refused=raced, headed="not timed")
    reached = speed_fraction(name, raced)
    return replace(raced, note=f"{reached:.2f} of our solution's speed") if reached else raced


def _missing(name: str) -> str:
    return f"Run the cell that begins with %%{exercise(name).language} {name} first, then this one again."


def load_ipython_extension(shell: InteractiveShell) -> None:
    """`%load_ext kernels.grading`: the cell magics, and a judge that gets ready meanwhile."""

    def magic(language: str):
        def take(line: str, cell: str) -> None:
            from IPython.display import display

            name = line.strip()
            report = submit(language, name, cell)
            if report.refused:
                display(report)
            elif exercise(name).at_once:
                display(check(name))
            else:
                print(f"{report.exercise}: taken. Now check it.")

        return take

    for language in LANGUAGES:
        shell.register_magic_function(magic(language), "cell", language)
    process.start()
