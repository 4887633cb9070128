"""What the exercises share: machines, calls, and that a function takes all of its tensors at once."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from kernels.grading.exercise import Call, Exercise, Property, Trial

_ROUNDINGS = 1 + 2.0**-50  # a formula in another order rounds elsewhere
_READS = {"item", "tolist", "map_", "apply_", "__bool__", "__int__", "__float__", "__index__", "__contains__"}


def uniform(random: torch.Generator, n: int, low: float, high: float) -> torch.Tensor:
    return low + (high - low) * torch.rand(n, generator=random, dtype=torch.float64)


def machine(random: torch.Generator) -> dict[str, float]:
    """Operations, and bytes, a second."""
    bandwidth, ridge = 10 ** uniform(random, 1, 10, 12.8).item(), uniform(random, 1, 3, 300).item()
    return {"peak": bandwidth * ridge, "bandwidth": bandwidth}


def call(args: Mapping[str, Any], **expected: torch.Tensor) -> Call:
    return Call({**args}, expected=expected, baseline={name: one * _ROUNDINGS for name, one in expected.items()})


def exercise(name: str, **of: Any) -> Exercise:
    return Exercise(name=name, language="torch", prelude="import torch", observe=counted, modules=(__name__,), **of)


class _Counter(TorchFunctionMode):
    """Counts what a function calls of PyTorch, and keeps the first line that takes a value out of a tensor."""

    calls, read = 0, ""

    def __torch_function__(
        self, func: Callable, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self.calls += 1
        if getattr(func, "__name__", "") in _READS and not self.read:
            frames = [one for one in traceback.extract_stack() if "/submission-" in one.filename]
            self.read = f"line {frames[-1].lineno}: {frames[-1].line}" if frames else "a line of the text"
        return func(*args, **(kwargs or {}))


def counted(function: Callable, args: Mapping[str, Any]) -> tuple[Any, dict]:
    """Observes a call: "calls", how many there are of PyTorch's functions, and "read", the line that takes a value, or ""."""
    with _Counter() as counter:
        result = function(**args)
    return result, {"calls": counter.calls, "read": counter.read}


def at_once(what: str) -> Property:
    """No value is taken out of a tensor, and PyTorch is called as often in the case "many" as in the case "first"."""

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in trials:
            if trial.facts["read"]:
                return f"{trial.facts['read']}\na value is taken out of a tensor (with {trial.where})"
        few, many = (next(one for one in trials if one.case == case) for case in ("first", "many"))
        if few.facts["calls"] == many.facts["calls"]:
            return None
        return (
            f"{few.facts['calls']:,} calls of PyTorch with {few.where}, and {many.facts['calls']:,} with {many.where}"
        )

    hint = "Operators take whole tensors, and torch.where, minimum, maximum and clamp choose: no loop, and no if."
    return Property(f"all {what} at once", broken, "costs", hint)
