"""The one place through which Triton kernels are launched.

On a GPU it launches. In Triton's interpreter it also fixes bfloat16: the interpreter computes on NumPy arrays, NumPy has no
bfloat16, so arithmetic on such values is done on their bit patterns, and storing float32 as bfloat16 truncates instead of
rounding. So bfloat16 tensors enter the interpreter as float32 and are rounded when the kernel has ended: the arithmetic
between is float32, as it is in the kernels themselves, which load, convert and compute in float32.
"""

from collections.abc import Callable
from typing import Any

import torch
from triton import JITFunction
from triton.knobs import runtime

from kernels import replay
from kernels.machine import interpreting
from kernels.triton.descriptors import base_of, with_base
from kernels.watch import Watch

ASSERTING = {"debug": True, "sanitize_overflow": False}
"""Options with which a compiled kernel keeps its own assertions, and gets no others."""
watched = Watch()
"""`with watched(by):` calls `by(kernel, grid, args, options)` for every launch."""


def launch(kernel: Callable, grid: tuple[int, ...], *args: object, **options: object) -> None:
    """Launch `kernel[grid](*args, **options)`.

    Args:
        kernel: a `triton.jit` function.
        grid: one to three numbers of programs.
        args: tensors, TMA descriptors, numbers and None, in the kernel's order. All tensors lie on one device.
        options: the kernel's constexprs, num_warps and num_stages.

    Raises:
        ValueError: for tensors on a CPU when Triton was imported as a compiler.
    """
    if watched.by:
        watched.by(kernel, grid, args, options)
        return
    if interpreting():
        _interpret(kernel, grid, args, options)
        if replay.is_recording():
            replay.launched(args, None)
        return
    device = next(base.get_device() for base in map(base_of, args) if isinstance(base, torch.Tensor))
    if device < 0:
        raise ValueError(
            "x: is on cpu, where Triton kernels run only in Triton's interpreter: "
            "set TRITON_INTERPRET=1 in the environment before Python starts, or move the tensors to a GPU"
        )
    if device == torch._C._cuda_getDevice():
        _launch(kernel, grid, args, options)
    else:
        with torch.cuda.device(device):
            _launch(kernel, grid, args, options)


def _launch(kernel: Callable, grid: tuple[int, ...], args: tuple, options: dict) -> None:
    compiled = kernel[grid](*args, **options)
    if replay.is_recording():
        simple = type(kernel) is JITFunction and not kernel.pre_run_hooks and not kernel.used_global_vals
        simple = simple and all(base_of(arg) is arg for arg in args)  # a descriptor holds an address, too
        replay.launched(args, _again(kernel, compiled, grid, args, options) if simple else None)


def _again(kernel: JITFunction, compiled: Any, grid: tuple[int, ...], args: tuple, options: dict) -> Callable:
    """What launches the machine code that Triton has found for a launch, as Triton does."""
    x, y, z = (*grid, 1, 1)[:3]
    rest = [options.get(name, kernel.signature.parameters[name].default) for name in kernel.arg_names[len(args) :]]
    run, function, metadata, device = (
        compiled.run,
        compiled.function,
        compiled.packed_metadata,
        torch._C._cuda_getDevice(),
    )

    def again(values: tuple) -> None:
        stream = torch._C._cuda_getCurrentRawStream(device)
        enter, leave = runtime.launch_enter_hook, runtime.launch_exit_hook
        if enter.calls or leave.calls:  # a profiler's; where there are none, Triton would call them all the same
            about = compiled.launch_metadata(grid, stream, *values, *rest)
            run(x, y, z, stream, function, metadata, about, enter, leave, *values, *rest)
        else:
            run(x, y, z, stream, function, metadata, None, None, None, *values, *rest)

    return again


def _interpret(kernel: Callable, grid: tuple[int, ...], args: tuple, options: dict) -> None:
    passed, copies = [], []
    for arg in args:
        base = base_of(arg)
        if isinstance(base, torch.Tensor) and base.dtype == torch.bfloat16:
            # The stretch of memory that the tensor spans, gaps included: so its strides stay as the kernel was told.
            span = 1 + sum((size - 1) * stride for size, stride in zip(base.shape, base.stride(), strict=True))
            span = span if base.numel() else 0
            memory = base.as_strided((span,), (1,))
            wide = memory.float()
            copies.append((memory, wide, wide.clone()))
            arg = with_base(arg, wide.as_strided(base.shape, base.stride(), 0))
        passed.append(arg)
    kernel[grid](*passed, **options)
    for memory, wide, before in copies:
        written = wide.view(torch.int32) != before.view(torch.int32)
        memory[written] = wide[written].to(memory.dtype)
