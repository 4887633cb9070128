"""What is here: the processor, the GPU, the compiler and the packages, as far as kernels care."""

import os
import shlex
import shutil
from dataclasses import dataclass

import torch


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
    """The C++ compiler's command: $CXX, which may carry options, else g++, c++ or clang++; None if there is none."""
    for command in (os.environ.get("CXX"), "g++", "c++", "clang++"):
        words = shlex.split(command or "")
        if words and shutil.which(words[0]):
            return (shutil.which(words[0]), *words[1:])
    return None


def interpreting() -> bool:
    """Whether Triton kernels run in Triton's interpreter (TRITON_INTERPRET=1, decided before triton is imported)."""
    return os.environ.get("TRITON_INTERPRET", "0") == "1"


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
