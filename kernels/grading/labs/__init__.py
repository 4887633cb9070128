"""One file a lab: what it asks for, as a tuple of `Exercise` called EXERCISES."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from pathlib import Path

from kernels.grading.exercise import Exercise

LABS = Path(__file__).parents[3] / "labs"  # the notebooks
_CONTENTS = LABS.parent / "_toc.yml"


@functools.cache
def labs() -> dict[str, tuple[Exercise, ...]]:
    """The exercises of every lab, by its name, in reading order."""
    order = re.findall(r"file: labs/(\w+)", _CONTENTS.read_text()) if _CONTENTS.exists() else []
    names = [one.name for one in pkgutil.iter_modules(__path__)]
    names.sort(key=lambda name: (order.index(name) if name in order else len(order), name))
    return {name: importlib.import_module(f"{__name__}.{name}").EXERCISES for name in names}


def exercise(name: str) -> Exercise:
    """The exercise of that name. ValueError: there is none."""
    every = {one.name: one for exercises in labs().values() for one in exercises}
    if name not in every:
        raise ValueError(f"there is no exercise {name!r}; there are {', '.join(every)}")
    return every[name]
