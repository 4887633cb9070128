"""A drill: an exercise of a few minutes in CUDA C, checked as soon as its cell is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernels.grading import properties
from kernels.grading.exercise import Call, Exercise, Property
from kernels.grading.properties import known_mistakes, termination

_UNWRITTEN = "A value that no thread has written yet is read: is a barrier missing, or are some elements not written?"


def drill(
    name: str,
    call: Callable[..., Call],
    cases: Mapping[str, Mapping[str, Any]],
    drawn: Mapping[str, Mapping[str, range]],
    rule: str,
    likes: Mapping[str, Callable[..., dict]] | None = None,
    *more: Property,
    together: bool = False,
    inside: str | Mapping[str, str] = "Which threads are there, and which elements?",
    hint: str | Mapping[str, str] = "",
    large: Mapping[str, int] | None = None,
) -> Exercise:
    """An exercise whose output is called y.

    call, cases, drawn: as of `Exercise`. rule: what y is, the name of the property. likes: mistakes that are recognised by
    their values (see `known_mistakes.right`). more: properties about costs.
    together: the threads of a block share memory.
    inside, hint: for who leaves the arrays, and for whose values are wrong.
    large: sizes of one more case, which runs once and without the lens.
    """
    meeting = (
        termination.reaches_barriers(
            "Every thread of a block must reach __syncthreads(), even one that has no element."
        ),
        properties.without(
            "race", name="no race", hint="Which thread reads what another writes? A barrier goes between."
        ),
    )
    stored = properties.without(
        "uninitialised read", name="nothing is read before it is written", stage="right", hint=_UNWRITTEN
    )
    cases = {**cases, **({"large": large} if large else {})}
    return Exercise(
        name=name,
        language="cuda",
        call=call,
        cases=cases,
        drawn=drawn,
        unwatched=("large",) if large else (),
        seconds=3,
        at_once=True,
        properties=(
            properties.stays_inside(inside),
            *(meeting if together else ()),
            termination.finishes(barriers=not together),
            properties.written("every element of y is written", "Which thread should write the first of them?"),
            *((stored,) if together else ()),
            known_mistakes.right("y", cases=tuple(cases), name=rule, likes=likes or {}, hint=hint),
            *more,
        ),
    )
