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


def finishes() -> Property:
    """No call stopped at anything else, such as a limit of time."""
    hint = "Does every iteration bring its loop nearer to the end? Can a divisor be 0?"
    return Property("it runs to its end", _stopped(at_meeting=False), "runs", hint)


def _stopped(at_meeting: bool) -> Callable[[Sequence[Trial]], str | None]:
    every = properties.finishes().broken
    return lambda trials: every([one for one in trials if one.error and bool(_MEETING.match(one.error)) == at_meeting])
