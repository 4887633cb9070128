"""Trace a launch: run it instrumented, in a process of its own, and count what it asks of the memory system."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from kernels.cuda import Kernel, arguments
from kernels.cuda.isolated import copy_back, run_in_worker
from kernels.lens.cuda import instrumented, run
from kernels.lens.result import Trace


def trace(
    kernel: Kernel,
    grid: Sequence[int],
    block: Sequence[int],
    args: Sequence[Any],
    shared_mem: int = 0,
    *,
    seed: int | None = None,
    blocks: int | None = None,
    seconds: float = 30.0,
    memory_bytes: int = 4 << 30,
) -> Trace:
    """Launch `kernel(grid, block, args, shared_mem)` on the CPU and report what it asks of a GPU's memory system.

    The launch is isolated: it runs in a worker process on copies of the tensors, each at its offset from a 256-byte
    boundary and between red zones, and what it leaves in them is copied back, as it is in `__device__` variables. `args`
    are those of a launch. Tensors may be on a GPU, but not the variables.

    seed: start blocks and threads in a random order, as `kernels.cuda.order` does. The counters are the same.
    blocks: trace so many blocks, spread evenly over the grid, and scale the totals; the other blocks do not run, and
        the tensors stay as they were. By default, all.
    seconds, memory_bytes: the most that compiling and running may take.

    A launch that stops at an error still has a trace, of what ran before (see `Trace.error` and `Trace.findings`), and
    leaves the tensors as they were.
    Raises what `kernels.cuda.isolated` raises before a launch or when the worker is stopped.
    """
    grid, block = arguments.dimensions(grid, "grid"), arguments.dimensions(block, "block")
    arguments.device_of(args)
    if blocks is not None and (isinstance(blocks, bool) or not isinstance(blocks, int) or blocks < 1):
        raise ValueError(f"blocks must be a number of blocks to trace, at least 1, got {blocks!r}")
    instrumented.lens_library()  # compiled once, which is not the learner's time
    launch = (kernel, _variables(kernel), grid, block, copied_to_cpu(args), shared_mem, seed, blocks)
    limits = {"seconds": seconds, "memory_bytes": memory_bytes, "device": "cpu"}
    result, left, changed = run_in_worker(kernel.name, run.run, *launch, **limits)
    copy_back(left, args)
    if changed:
        kernel._module._function(torch.device("cpu"), kernel.name).put_back(changed)
    return result


def _variables(kernel: Kernel) -> dict[str, bytes]:
    """What the source's variables hold in this process, if it was compiled here."""
    function = kernel._module._functions.get((torch.device("cpu"), kernel.name))
    return {symbol: bytes(memory) for symbol, memory in function.memory.items()} if function else {}


def copied_to_cpu(args: Sequence[Any]) -> tuple:
    """The arguments with a GPU's tensors copied, those of one storage together."""
    storages: dict[int, torch.UntypedStorage] = {}

    def moved(arg: Any) -> Any:
        if not isinstance(arg, torch.Tensor) or arg.device.type == "cpu":
            return arg
        storage = arg.untyped_storage()
        here = storages.setdefault(storage.data_ptr(), storage.cpu())
        return torch.empty(0, dtype=arg.dtype).set_(here, arg.storage_offset(), arg.shape, arg.stride())

    return tuple(moved(arg) for arg in args)
