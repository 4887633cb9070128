"""How a call of a submission in Python is observed, in its worker: what `Exercise.observe` may be.

An observer calls the function, and returns its result and facts by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch.utils._python_dispatch import _disable_current_modes

from kernels import lens
from kernels.lens.pytorch.operators import Recorder
from kernels.lens.triton import run, trace


def called(function: Callable, args: Mapping[str, Any]) -> tuple[Any, dict]:
    """Observes nothing."""
    return function(**args), {}


def launches(function: Callable, args: Mapping[str, Any]) -> tuple[Any, dict]:
    """Observes a call that launches Triton kernels: "traces", one a launch, and "operators", what it asks of PyTorch besides
    (`kernels.lens.Operator`).

    RuntimeError: a kernel stopped at an error.
    """
    traces: list[lens.Trace] = []

    def take(*launch: Any) -> None:
        with _disable_current_modes():  # the trace's own operators are none of the call's
            traces.append(run.trace_here(*launch))
        if traces[-1].error:
            raise RuntimeError(traces[-1].error)

    recorder = _Recorder()
    with trace.watched(take), recorder:
        result = function(**args)
    return result, {"traces": tuple(traces), "operators": tuple(recorder.calls)}


class _Recorder(Recorder):
    """Torch's compiler is not asked to leave it alone: asking imports the compiler, which takes longer than all the rest."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    __torch_dispatch__ = inspect.unwrap(Recorder.__torch_dispatch__)
