"""How a call of a submission in Python is observed, in its worker: what `Exercise.observe` may be.

An observer calls the function, and returns its result and facts by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from kernels import lens
from kernels.lens.pytorch.operators import Recorder
from kernels.lens.triton import run, trace
from kernels.triton.descriptors import base_of


def called(function: Callable, args: Mapping[str, Any]) -> tuple[Any, dict]:
    """Observes nothing."""
    return function(**args), {}


def launches(function: Callable, args: Mapping[str, Any]) -> tuple[Any, dict]:
    """Observes a call that launches Triton kernels: "traces", one a launch, each with the names of arrays (see `_roles`);
    and "operators", what it asks of PyTorch besides (`kernels.lens.Operator`).

    RuntimeError: a kernel stopped at an error.
    """
    traces: list[lens.Trace] = []
    given: list[dict[str, torch.Tensor]] = []  # kept until the end, so that no other tensor gets their memory

    def take(kernel: Any, grid: Any, values: Any, options: Any) -> None:
        with _disable_current_modes():  # the trace's own operators are none of the call's
            traces.append(run.trace_here(kernel, grid, values, options))
            bound = run.bind(kernel, values, options)
            given.append({name: base for name, one in bound.items() if isinstance(base := base_of(one), torch.Tensor)})
        if traces[-1].error:
            raise RuntimeError(traces[-1].error)

    recorder = _Recorder()
    with trace.watched(take), recorder:
        result = function(**args)
    named = tuple(zip(traces, (_roles(one, args, result) for one in given), strict=True))
    return result, {"traces": named, "operators": tuple(recorder.calls)}


def _roles(given: Mapping[str, torch.Tensor], args: Mapping[str, Any], result: Any) -> dict[str, str | int]:
    """Of a launch, which argument of the function each parameter of the kernel was given, or which of its results, by number:
    by where they lie in memory, so that it does not matter what a kernel calls its parameters."""
    results = dict(enumerate(result if isinstance(result, (tuple, list)) else [result]))
    roles: list[tuple[str | int, Any]] = [*results.items(), *args.items()]
    lying = {_memory(one): role for role, one in roles if isinstance(one, torch.Tensor)}
    return {name: lying[_memory(one)] for name, one in given.items() if _memory(one) in lying}


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


class _Recorder(Recorder):
    """Torch's compiler is not asked to leave it alone: asking imports the compiler, which takes longer than all the rest."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    __torch_dispatch__ = inspect.unwrap(Recorder.__torch_dispatch__)
