"""One file a lab: what it asks for, as a tuple of `Exercise` called EXERCISES."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from kernels.grading.exercise import Exercise


@functools.cache
def labs() -> dict[str, tuple[Exercise, ...]]:
    """The exercises of every lab, by its name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return {name: importlib.import_module(f"{__name__}.{name}").EXERCISES for name in names}


def exercise(name: str) -> Exercise:
    """The exercise of that name. ValueError: there is none."""
    every = {one.name: one for exercises in labs().values() for one in exercises}
    if name not in every:
        raise ValueError(f"there is no exercise {name!r}; there are {', '.join(every)}")
    return every[name]
