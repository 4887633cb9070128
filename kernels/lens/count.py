"""Count every launch inside a call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from kernels.cuda.watch import watched
from kernels.lens.result import Launches, Trace
from kernels.lens.trace import trace
from kernels.operation import Variant


@contextlib.contextmanager
def _cuda(record: Callable[[Trace], None]) -> Iterator[None]:
    """Level 5: launches of `kernels.cuda` are traced, each isolated, and leave in the tensors what they compute."""

    def launch(*of: Any) -> None:
        found = trace(*of)
        if found.error:
            raise RuntimeError(f"{found.kernel}: {found.error}")
        record(found)

    with watched(launch):
        yield


_LEVELS = (_cuda,)  # each hands the launches of its level to `record`


def count(variant: Variant | Callable[..., Any], /, **arguments: Any) -> Launches:
    """Call `variant(**arguments)` without gradients, and trace every launch inside.

    variant: of an operation, such as `op["cuda/warp"]`, or any function. arguments: tensors and parameters, by name.

    ValueError: nothing was launched that can be traced. RuntimeError: a launch stopped at an error.
    """
    call = variant.fn if isinstance(variant, Variant) else variant
    found: list[Trace] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        for level in _LEVELS:
            stack.enter_context(level(found.append))
        call(**arguments)
    if not found:
        raise ValueError(
            f"variant: {getattr(variant, 'key', variant)!r} launched no kernel of level 5: "
            "lens.operators lists what levels 1 to 3 ask for"
        )
    return Launches(tuple(found))
