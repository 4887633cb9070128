"""Why a kernel in CUDA C did not end, told apart: its threads did not meet, or it went on, or broke off by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from kernels.grading import properties
from kernels.grading.exercise import Property, Trial

_MEETING = re.compile(r"a barrier|a deadlock|a wait|__sync|__\w+_sync\b")  # how the runtime begins to speak of one


def reaches_barriers(hint: str) -> Property:
    """No call stopped at a barrier that not all threads reach, or at a shuffle that waits for a lane or reads one that left."""
    return Property("all threads reach each barrier and shuffle", _stopped(at_meeting=True), "runs", hint)


def finishes(barriers: bool = False) -> Property:
    """No call stopped at anything else, such as a limit of time; or, with `barriers`, at one of these either."""
    parameters = "The check launches the kernel: it takes the parameters that the cell began with, in that order."
    hints = {
        "the kernel takes": parameters,
        "argument ": parameters,
        "an access to memory": "Does each thread that reads or writes have an element? Where there are no elements, none has.",
        "": "Does every iteration bring its loop nearer to the end? Can a divisor be 0?",
    }
    broken = properties.finishes().broken if barriers else _stopped(at_meeting=False)
    return Property("it runs to its end", broken, "runs", hints)


def _stopped(at_meeting: bool) -> Callable[[Sequence[Trial]], str | None]:
    every = properties.finishes().broken
    return lambda trials: every([one for one in trials if one.error and bool(_MEETING.match(one.error)) == at_meeting])
