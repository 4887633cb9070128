"""Trace a launch of a Triton kernel: interpret it, in a process of its own, and count what it asks of memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

from kernels.cuda.isolated import copy_back, run_in_worker
from kernels.lens.cuda.trace import copied_to_cpu
from kernels.lens.result import Trace
from kernels.lens.triton import run
from kernels.lens.triton.kernel import Kernel, Portable
from kernels.triton import launch as triton_launch
from kernels.triton.descriptors import base_of, with_base


def trace_triton(
    kernel: Kernel,
    grid: Sequence[int] | Callable[[dict[str, Any]], Sequence[int]],
    args: Sequence[Any],
    *,
    seconds: float = 30.0,
    memory_bytes: int = 4 << 30,
    **options: Any,
) -> Trace:
    """Launch `kernel[grid](*args, **options)` in Triton's interpreter and report what it asks of a GPU's memory.

    kernel: a function decorated with `triton.jit`, of a module or of a notebook's cell. grid: one to three numbers of
    programs, or a function of the arguments by name. args: tensors (also on a GPU), TMA descriptors, numbers and None.
    options: constexprs, num_warps and num_stages, by name.
    seconds, memory_bytes: the most that the launch may take.

    The launch is isolated, also on a machine whose Triton is a compiler, and what it leaves in the tensors is copied back.
    A lane outside of its argument is a finding: what it reads is a NaN, what it writes is dropped, and the launch goes on.
    A lane that its mask switches off reads a NaN, too, if no `other` is given: on a GPU it may be anything.
    Two programs that use one element, of which one writes and no atomic orders them, are a race: the interpreter runs them
    one after another, and a GPU in any order.
    A launch that stops at an error has a trace of what ran before, and leaves the tensors as they were. bfloat16 is
    computed in float32, as in `kernels.triton.launch`, and counted as two bytes.

    Counts are of a program's whole access, such as one `tl.load`: see `Access` and `Trace.totals`.

    TypeError, ValueError: of a launch, before it. worker.WorkerError: the worker was stopped.
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(f"kernel: got {type(kernel).__name__}, expected a function decorated with @triton.jit alone")
    bound = run.bind(kernel, args, options)
    grid = run.grid_of(grid, bound)
    named = options | bound
    bases = [base_of(arg) for arg in named.values()]
    here = {name: with_base(arg, base) for (name, arg), base in zip(named.items(), copied_to_cpu(bases), strict=True)}
    limits = {"seconds": seconds, "memory_bytes": memory_bytes, "device": "cpu"}
    found, left = run_in_worker(kernel.fn.__name__, run.run, Portable.of(kernel), grid, here, **limits)
    if not found.error:
        copy_back([base_of(arg) for arg in left], bases)
    return found


@contextlib.contextmanager
def watched(by: Callable[[Kernel, Any, tuple, dict[str, Any]], Any]) -> Iterator[None]:
    """Call `by(kernel, grid, args, options)` for every launch of a Triton kernel inside, in place of launching."""

    def run(kernel: Kernel, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
        by(kernel, grid, args, options)

    with contextlib.ExitStack() as stack:
        stack.enter_context(triton_launch.watched(by))  # which bfloat16 has not left yet
        for kind in Kernel.__args__:
            stack.enter_context(mock.patch.object(kind, "run", run))
        yield
