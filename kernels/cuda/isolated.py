"""A launch in a worker process, for kernels that may be wrong."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernels import worker
from kernels.cuda import arguments
from kernels.cuda.cpu import build
from kernels.cuda.errors import CompileError, LaunchError
from kernels.cuda.kernel import Kernel
from kernels.cuda.order import current_seed, order
from kernels.worker.tensors import copy_storage


def isolated(
    kernel: Kernel,
    grid: Sequence[int],
    block: Sequence[int],
    args: Sequence[Any],
    shared_mem: int = 0,
    seconds: float = 10.0,
    memory_bytes: int = 4 << 30,
) -> None:
    """Compile and launch `kernel(grid, block, args, shared_mem)` in a worker process, which may crash or be stopped.

    The worker has copies of the tensors, as large as their storages, and what the kernel left in them is copied back when
    it has ended. When it fails, the tensors here are as they were. The kernel has ended when this returns, on a GPU too.
    The worker has the `order` around this call. A CPU's worker is a new process for each launch: a kernel's `__device__`
    variables start afresh.

    seconds: the longest that compiling and running may take. memory_bytes: the most memory that they may take.

    Raises what a launch raises, and:
        worker.TimeLimit: it did not end: an endless loop, a spin-wait for a block that does not run.
        worker.MemoryLimit: it took more memory.
        worker.WorkerDied: it ended its process.
    """
    args = tuple(args)
    device = arguments.device_of(args).type
    limits = {"seconds": seconds, "memory_bytes": memory_bytes, "device": device}
    launch = (kernel, grid, block, args, shared_mem, current_seed())
    copy_back(run_in_worker(kernel.name, _launch, *launch, **limits), args)


def run_in_worker(kernel: str, function: Callable, *args: Any, **limits: Any) -> Any:
    """`worker.run(function, *args, **limits)`, whose errors are about the kernel of that name.

    What the function's module imports, and compiling the CPU's runtime once, is not the kernel's time.
    """
    if limits["device"] == "cpu":
        worker.prepare(function.__module__)
        with contextlib.suppress(CompileError):  # the launch says so
            build.runtime_library()
    try:
        return worker.run(function, *args, **limits)
    except worker.WorkerError as error:
        raise type(error)(f"{kernel}: {error}") from None
    except (LaunchError, TypeError, ValueError) as error:
        vars(error).pop("__notes__", None)  # the message says all; the worker's lines of Python add nothing
        raise


def copy_back(left: Sequence[Any], args: Sequence[Any]) -> None:
    """Into the tensors of `args`, what a launch has left in their copies."""
    for copy, arg in zip(left, args, strict=True):
        if isinstance(arg, torch.Tensor):
            copy_storage(copy.untyped_storage(), arg.untyped_storage())


def _launch(
    kernel: Kernel, grid: Sequence[int], block: Sequence[int], args: tuple, shared_mem: int, seed: int | None
) -> tuple:
    """In the worker: launch, wait, return the tensors."""
    # It comes at the end of the time: the launch stops, and says where it was.
    signal.signal(signal.SIGINT, lambda *_: None)
    with contextlib.nullcontext() if seed is None else order(seed):
        kernel(grid, block, args, shared_mem)
    if torch.cuda.is_initialized():
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            raise LaunchError(f"{kernel.name}: {str(error).splitlines()[0]}") from None
    return args
