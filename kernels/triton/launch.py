"""The one place through which Triton kernels are launched.

On a GPU it launches. In Triton's interpreter it also fixes bfloat16: the interpreter computes on NumPy arrays, NumPy has no
bfloat16, so arithmetic on such values is done on their bit patterns, and storing float32 as bfloat16 truncates instead of
rounding. So bfloat16 tensors enter the interpreter as float32 and are rounded when the kernel has ended: the arithmetic
between is float32, as it is in the kernels themselves, which load, convert and compute in float32.
"""

from collections.abc import Callable

import torch

from kernels.machine import interpreting
from kernels.watch import Watch

watched = Watch()
"""`with watched(by):` calls `by(kernel, grid, args, options)` for every launch."""


def launch(kernel: Callable, grid: tuple[int, ...], *args: object, **options: object) -> None:
    """Launch `kernel[grid](*args, **options)`.

    Args:
        kernel: a `triton.jit` function.
        grid: one to three numbers of programs.
        args: tensors, numbers and None, in the kernel's order. All tensors lie on one device.
        options: the kernel's constexprs, num_warps and num_stages.

    Raises:
        ValueError: for tensors on a CPU when Triton was imported as a compiler.
    """
    if watched.by:
        watched.by(kernel, grid, args, options)
        return
    device = next(arg.device for arg in args if isinstance(arg, torch.Tensor))
    if interpreting():
        _interpret(kernel, grid, args, options)
    elif device.type != "cuda":
        raise ValueError(
            f"x: is on {device}, where Triton kernels run only in Triton's interpreter: "
            "set TRITON_INTERPRET=1 in the environment before Python starts, or move the tensors to a GPU"
        )
    elif device.index == torch.cuda.current_device():
        kernel[grid](*args, **options)
    else:
        with torch.cuda.device(device):
            kernel[grid](*args, **options)


def _interpret(kernel: Callable, grid: tuple[int, ...], args: tuple, options: dict) -> None:
    passed, copies = [], []
    for arg in args:
        if isinstance(arg, torch.Tensor) and arg.dtype == torch.bfloat16:
            # The stretch of memory that the tensor spans, gaps included: so its strides stay as the kernel was told.
            span = 1 + sum((size - 1) * stride for size, stride in zip(arg.shape, arg.stride(), strict=True))
            memory = arg.as_strided((span,), (1,))
            wide = memory.float()
            copies.append((memory, wide, wide.clone()))
            arg = wide.as_strided(arg.shape, arg.stride(), 0)
        passed.append(arg)
    kernel[grid](*passed, **options)
    for memory, wide, before in copies:
        written = wide.view(torch.int32) != before.view(torch.int32)
        memory[written] = wide[written].to(memory.dtype)
