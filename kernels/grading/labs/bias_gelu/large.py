"""Launches for an x that is too large to run: grids that a GPU refuses, blocks that grow, and programs that are too few."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from kernels.grading.exercise import Property, Trial
from kernels.grading.python import large
from kernels.grading.python.observers import launches

ONE_BLOCK = 65_536  # elements, and far more than a program has registers for
_MANY = 5_000_011, 31  # even in tiles of 64 rows more than the second axis of a grid has programs
_LONG = 3, 100_003  # what takes a row turn by turn takes long, so no program runs
_ONCE = 60_000  # elements of the one case that is followed by these calls


def observed(function: Callable, args: Mapping[str, Any]) -> tuple[Any, dict]:
    """As `launches`, and "large": what would be launched for each of the shapes."""
    result, facts = launches(function, args)
    if args["x"].numel() < _ONCE:
        return result, facts
    calls = {
        (M, N): {"x": torch.empty(M, N, device="meta"), "bias": torch.empty(N, device="meta")}
        for M, N in (_MANY, _LONG)
    }
    found = {
        shape: large.launched(function, call, runs="first" if shape == _MANY else None) for shape, call in calls.items()
    }
    return result, facts | {"large": found}


def launched_for_all(name: str, hint: str | Mapping[str, str] = "") -> Property:
    """A GPU takes the launch for a large x, and its programs store all of y."""

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in trials:
            for (M, N), launch in trial.facts.get("large", {}).items():
                if launch and (message := _wrong(trial, launch, M * N)):
                    return f"{message}\n(with M = {M}, N = {N})"
        return None

    return Property(name, broken, "costs", hint)


def _wrong(trial: Trial, launch: large.Launch | str, elements: int) -> str | None:
    if isinstance(launch, str):
        return launch
    before = trial.traces[0].constants or {}
    for name, value in launch.constants.items():
        # What is no power of two is a size of x, and no block's.
        if type(value) is int and value > ONE_BLOCK and value.bit_count() == 1 and value != before.get(name):
            shorter = f", and {before[name]} for N = {trial.sizes['N']}" if name in before else ""
            return f"the block grows with x: {name} = {value}{shorter}; no program has room for so many"
    programs = math.prod(launch.grid)
    if launch.stored is not None and programs * launch.stored < elements:
        return f"{programs:,} programs that store {launch.stored:,} elements each are too few for {elements:,}"
    return None
