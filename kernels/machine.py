"""What is here: the processor, the GPU, the compiler and the packages, as far as kernels care."""

import functools
import os
import shlex
import shutil
from dataclasses import dataclass

import torch

from kernels.hardware import REFERENCE_MULTIPROCESSORS


@dataclass(frozen=True)
class Machine:
    """The machine as one device of it sees it.

    Args:
        device: "cpu" or "cuda", where tensors live.
        gpu: the GPU's name, or None on a CPU.
        capability: the GPU's compute capability, such as (9, 0), or None.
        compiler: the C++ compiler's command, or None.
        interpreting: whether Triton kernels run in Triton's interpreter.
    """

    device: str
    gpu: str | None
    capability: tuple[int, int] | None
    compiler: tuple[str, ...] | None
    interpreting: bool


def compiler() -> tuple[str, ...] | None:
    """The C++ compiler's command: $CXX, which may carry options, or the first of g++, c++ and clang++; None if there is none.

    A $CXX that does not exist gives None too: another compiler than the one asked for would be a surprise.
    """
    asked = os.environ.get("CXX")
    for command in (asked,) if asked else ("g++", "c++", "clang++"):
        try:
            name, *options = shlex.split(command)
        except ValueError as error:
            raise ValueError(f"CXX: got {command!r}, which is no command: {error}") from None
        if path := shutil.which(name):
            return (path, *options)
    return None


@functools.cache
def interpreting() -> bool:
    """Whether Triton kernels run in Triton's interpreter, which TRITON_INTERPRET decides when triton is imported."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "on", "yes", "y")


def here(device: str | None = None) -> Machine:
    """This machine, seen from `device`: "cpu", "cuda", or the GPU where there is one."""
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    if device not in ("cpu", "cuda"):
        raise ValueError(f"device: got {device!r}, expected 'cpu' or 'cuda'")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device: got 'cuda', but torch sees no GPU here; `python -m kernels doctor` says why")
    on_gpu = device == "cuda"
    return Machine(
        device=device,
        gpu=torch.cuda.get_device_name() if on_gpu else None,
        capability=torch.cuda.get_device_capability() if on_gpu else None,
        compiler=compiler(),
        interpreting=interpreting(),
    )


@functools.cache
def multiprocessors(device: torch.device) -> int:
    """Multiprocessors of a GPU; for a CPU those of the reference target, so that launches are alike everywhere."""
    if device.type == "cpu":
        return REFERENCE_MULTIPROCESSORS
    return torch.cuda.get_device_properties(device).multi_processor_count
