"""Launches on tensors with elements so far apart that their index needs 64 bits, in memory that only what is touched takes."""

from __future__ import annotations

import mmap
from typing import Any

import torch

from kernels.cuda import Kernel
from kernels.cuda.isolated import run_in_worker
from kernels.grading.exercise import Call

_NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux: pages that nothing touches need not be there
_ALIGNED = 256  # elements


def launch(kernel: Kernel, call: Call, seconds: float) -> dict[str, Any]:
    """The arguments of a call with `strides` as a launch on a CPU leaves them, in a worker process. Raises what
    `kernels.cuda.isolated` raises."""
    limits = {"seconds": seconds, "memory_bytes": 1 << 30, "device": "cpu"}
    return run_in_worker(kernel.name, _launched, kernel, call, **limits)


def _launched(kernel: Kernel, call: Call) -> dict[str, Any]:
    args = {name: _apart(arg, call.strides[name]) if name in call.strides else arg for name, arg in call.args.items()}
    kernel(call.grid, call.block, tuple(args.values()), call.shared_mem)
    return {name: arg.clone() if isinstance(arg, torch.Tensor) else arg for name, arg in args.items()}


def _apart(values: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """A copy with these strides, in elements. As much memory lies before it as after: an index that has become negative is
    an address in there."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(values.shape, strides, strict=True))
    half = -(-extent // _ALIGNED) * _ALIGNED
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    memory = mmap.mmap(-1, 2 * half * values.element_size(), flags=flags)
    whole = torch.frombuffer(memory, dtype=values.dtype)
    return whole.as_strided(values.shape, strides, half).copy_(values)
