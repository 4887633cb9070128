"""Launches on tensors with elements so far apart that their index needs 64 bits."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from kernels.cuda import Kernel
from kernels.cuda.isolated import run_in_worker
from kernels.cuda.order import first_and_last_block
from kernels.grading.exercise import Call
from kernels.grading.far_apart import far_apart


def launch(kernel: Kernel, call: Call, seconds: float) -> dict[str, Any]:
    """The arguments of a call with `strides` as a launch on a CPU leaves them, in a worker process. Raises what
    `kernels.cuda.isolated` raises."""
    limits = {"seconds": seconds, "memory_bytes": 1 << 30, "device": "cpu"}
    return run_in_worker(kernel.name, _launched, kernel, call, **limits)


def _launched(kernel: Kernel, call: Call) -> dict[str, Any]:
    args = {
        name: far_apart(arg, call.strides[name]) if name in call.strides else arg for name, arg in call.args.items()
    }
    with first_and_last_block() if call.ends_only else contextlib.nullcontext():
        kernel(call.grid, call.block, tuple(args.values()), call.shared_mem)
    return {name: arg.clone() if isinstance(arg, torch.Tensor) else arg for name, arg in args.items()}
