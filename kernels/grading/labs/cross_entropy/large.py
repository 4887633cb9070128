"""A launch for so many rows that only the first axis of a grid has a program for each: it is not run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from kernels.grading.exercise import Property, Trial
from kernels.grading.python import large
from kernels.grading.python.observers import launches

_M, _N = 300_007, 5


def observed(function: Callable, args: Mapping[str, Any]) -> tuple[Any, dict]:
    """As `launches`, and "large": what is launched for many rows."""
    result, facts = launches(function, args)
    if args["x"].numel() > 1:
        return result, facts
    call = {"x": torch.empty(_M, _N, device="meta"), "target": torch.empty(_M, dtype=torch.int64, device="meta")}
    return result, facts | {"large": large.launched(function, call, runs="first")}


def launched_for_all(name: str, hint: str) -> Property:
    """A GPU takes the launch for many rows, and its programs store all of dx."""

    def broken(trials: Sequence[Trial]) -> str | None:
        said = next(filter(None, (_wrong(trial.facts.get("large")) for trial in trials)), None)
        return said and f"{said}\n(with M = {_M}, N = {_N})"

    return Property(name, broken, "costs", hint)


def _wrong(launch: large.Launch | str | None) -> str | None:
    if not isinstance(launch, large.Launch):
        return launch
    programs = math.prod(launch.grid)
    if launch.stored is None or programs * launch.stored >= _M * _N:
        return None
    return f"{programs:,} programs that store {launch.stored:,} elements each are too few for {_M:,} rows"
