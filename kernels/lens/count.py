"""Count every launch inside a call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from kernels.cuda.kernel import watched
from kernels.lens.cuda.trace import trace
from kernels.lens.pytorch import inductor
from kernels.lens.pytorch.operators import Operators, Recorder
from kernels.lens.result import Launches, Trace
from kernels.lens.triton.trace import trace_triton
from kernels.lens.triton.trace import watched as watched_triton
from kernels.operation import Variant


@contextlib.contextmanager
def _traced(record: Callable[[Trace], None]) -> Iterator[None]:
    """Levels 4 and 5: launches are traced, each isolated, and leave in the tensors what they compute."""

    def take(found: Trace) -> None:
        if found.error:
            raise RuntimeError(f"{found.kernel}: {found.error}")
        record(found)

    def cuda(*launch: Any) -> None:
        take(trace(*launch))

    def triton(kernel: Any, grid: Any, args: tuple, options: dict[str, Any]) -> None:
        take(trace_triton(kernel, grid, args, **options))

    with watched(cuda), watched_triton(triton):
        yield


def count(variant: Variant | Callable[..., Any], /, **arguments: Any) -> Launches | Operators:
    """Call `variant(**arguments)` without gradients, and count what it launches.

    variant: of an operation, such as `op["cuda/warp"]`, or any function. arguments: tensors and parameters, by name.

    Levels 4 and 5: `Launches`, a trace of each launch of a Triton or CUDA C kernel. What PyTorch's own operators launch
    around them, such as filling a sum with zeros, is not among them.
    Levels 1 to 3, where nothing of the kind is launched: `Operators`. Level 1 is exact. What levels 2 and 3 launch is for a
    compiler to choose, which chooses otherwise on another machine (see `Operators.compiler`), and TorchScript otherwise
    in its first calls than later.
    Both have `totals` with "launches" and "bytes_requested". A kernel asks for the bytes that its lanes name, as often as
    they name them, an operator for each of its tensors once.

    ValueError: nothing was launched. RuntimeError: a launch stopped at an error.
    """
    call = variant.fn if isinstance(variant, Variant) else variant
    found: list[Trace] = []
    recorder = Recorder()
    with torch.no_grad(), _traced(found.append), recorder, inductor.watched(recorder.generated):
        call(**arguments)
    if found:
        return Launches(tuple(found))
    if not recorder.calls:
        raise ValueError(f"variant: {getattr(variant, 'key', variant)!r} launched nothing")
    return recorder.operators(call, arguments, isinstance(variant, Variant) and variant.level == 2)
