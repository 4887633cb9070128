"""A traced launch of a Triton kernel, in Triton's interpreter."""

from __future__ import annotations

import contextlib
import inspect
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import triton
from triton.runtime import interpreter
from triton.runtime.errors import InterpreterError

from kernels.cuda import arguments
from kernels.hardware import WARP
from kernels.lens.result import Trace
from kernels.lens.triton.kernel import Kernel, Portable
from kernels.lens.triton.memory import Memory
from kernels.lens.triton.recorder import Recorder

_WARPS = 4  # num_warps where a launch does not say
launch = interpreter.InterpretedFunction.run  # also where launches are watched, to be traced here


def run(kernel: Portable, grid: tuple[int, int, int], args: dict[str, Any]) -> tuple[Trace, tuple[Any, ...]]:
    """In a worker: the trace, and the arguments, all given by name, as the launch left them."""
    torch.set_num_threads(1)  # in a forked process; and small tensors gain nothing
    return trace_here(kernel.load(), grid, (), args), tuple(args.values())


def trace_here(kernel: Kernel, grid: Any, args: Sequence[Any], options: Mapping[str, Any]) -> Trace:
    """Launch `kernel[grid](*args, **options)` on CPU tensors in this process and report what it asks of memory.

    For a process that is a worker already. See `kernels.lens.trace_triton`.
    """
    if not isinstance(kernel, interpreter.InterpretedFunction):
        raise ValueError(
            "TRITON_INTERPRET: is 0 in the environment, so Triton is a compiler everywhere; the lens needs its "
            "interpreter: unset it before Python starts"
        )
    bound = bind(kernel, args, options)
    grid = grid_of(grid, bound)
    about = Portable.of(kernel)
    memory = Memory(bound)
    recorder = Recorder(about.filename, memory, grid)
    error = None
    try:
        with recorder.watching(), plain_constants(kernel):
            launch(kernel, grid=grid, warmup=False, **memory.args)
    except InterpreterError as raised:
        error = _described(raised, about.filename)
    memory.leave()
    blocks = grid[0] * grid[1] * grid[2]
    return Trace(
        kernel=about.name,
        grid=grid,
        block=(WARP * options.get("num_warps", _WARPS), 1, 1),
        shared_mem=None,
        source=about.source,
        filename=about.short_filename,
        accesses=recorder.accesses(),
        barriers=None,
        simt_efficiency=None,
        blocks_run=blocks,
        blocks=blocks,
        findings=recorder.findings(),
        error=error,
        constants=constants_of(kernel, bound, options),
        busiest=recorder.busiest(),
    )


def bind(kernel: Kernel, args: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a launch by their parameters' names."""
    named = {name: value for name, value in options.items() if name in kernel.arg_names}
    try:
        bound = inspect.signature(kernel.fn).bind(*args, **named)
    except TypeError as error:
        raise TypeError(f"{kernel.fn.__name__}: {error}") from None
    bound.apply_defaults()
    return bound.arguments


def grid_of(grid: Any, bound: Mapping[str, Any]) -> tuple[int, int, int]:
    """Three numbers of programs. `grid`: one to three, or what makes them of the arguments."""
    made = grid(bound) if callable(grid) else grid
    if isinstance(made, int):
        raise TypeError(f"the grid is {made}, a number, and has to be a tuple: kernel[({made},)](…)")
    return arguments.dimensions(tuple(made), "grid")


def constants_of(kernel: Kernel, bound: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The constexprs of a launch and the options of the compiler."""
    parameters = inspect.signature(kernel.fn).parameters
    found = {name: bound[name] for name, one in parameters.items() if "constexpr" in str(one.annotation)}
    found |= {name: value for name, value in options.items() if name not in bound}
    plain = (bool, int, float, str, type(None))
    values = {name: getattr(value, "value", value) for name, value in found.items()}  # of a tl.constexpr
    return {name: value if isinstance(value, plain) else str(value) for name, value in values.items()}


@contextlib.contextmanager
def plain_constants(kernel: Kernel) -> Iterator[None]:
    """The constants of a kernel's module as their values, as those among its arguments are in the interpreter.

    There, what a `tl.constexpr` on the left is multiplied by or added to becomes one, and nothing takes that.
    """
    names = kernel.fn.__globals__
    constants = {name: one for name, one in names.items() if isinstance(one, triton.language.constexpr)}
    names.update({name: one.value for name, one in constants.items()})
    try:
        yield
    finally:
        names.update(constants)


def _described(error: InterpreterError, filename: str) -> str:
    """What went wrong in a kernel, and at which line of its source."""
    cause: BaseException = error
    line = 0
    while True:
        lines = [one.lineno for one in traceback.extract_tb(cause.__traceback__) if one.filename == filename]
        line = lines[-1] if lines else line
        if not isinstance(cause, InterpreterError) or cause.__cause__ is None:
            break
        cause = cause.__cause__
    said = f"{type(cause).__name__}: {cause}"
    return f"line {line}: {said}" if line else said
