"""The arrays of a trace by the names of the exercise, whatever a submission calls them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from kernels.lens import Trace


def as_asked(trace: Trace, names: Mapping[str, str], asked: Collection[str]) -> Trace:
    """A trace whose arrays are named as the exercise names them. names: from the text's to the exercise's, which are `asked`.

    Findings stay in the words of the text, whose lines they are read beside. What else the text calls like an array of the
    exercise, such as shared memory, is then "your x".
    """
    names = {name: f"your {name}" for name in asked} | dict(names)

    def named(name: str) -> str:
        return names.get(name, name)

    accesses = [
        replace(
            one,
            names=tuple(map(named, one.names)),
            samples=tuple(replace(request, array=named(request.array)) for request in one.samples),
        )
        for one in trace.accesses
    ]
    busiest = {named(name): most for name, most in trace.busiest.items()}
    return replace(trace, accesses=tuple(accesses), busiest=busiest)
