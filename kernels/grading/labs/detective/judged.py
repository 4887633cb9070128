"""What each of the six is judged by, whatever its bug."""

from __future__ import annotations

from collections.abc import Callable

from kernels.grading import properties
from kernels.grading.exercise import Call, Exercise, Property
from kernels.grading.properties import termination


def judged(
    name: str,
    call: Callable[..., Call],
    cases: dict[str, dict],
    drawn: dict[str, dict[str, range]],
    *own_properties: Property,
    unwatched: tuple[str, ...] = (),
) -> Exercise:
    come = (
        "All threads of the block must reach a barrier, and all lanes that a shuffle's mask names must take part in it."
    )
    every = properties.stays_inside(), termination.reaches_barriers(hint=come), termination.finishes()
    return Exercise(
        name=name,
        language="cuda",
        call=call,
        cases=cases,
        drawn=drawn,
        unwatched=unwatched,
        properties=(*every, *own_properties),
    )
