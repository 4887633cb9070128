"""What is here: the processor, the GPU, the compiler and the packages, as far as kernels care."""

import contextlib
import functools
import os
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from kernels.hardware import REFERENCE, REFERENCE_MULTIPROCESSORS, Target, has_feature, target_of

CPU_THREADS = 256
"""That a CPU is taken to have: so few that small matrices, which checks can afford, meet all that large ones do on a GPU."""
_planned: Target | None = None


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


def elements_of_thread(total: int, device: torch.device) -> int:
    """Elements of a thread, of so many that are computed one by one.

    Where a GPU has about a thread for each, one: a thread's code is written out for all of its elements, and little code is
    soon done (what it is worth: book/results/tried/small_and_odd.json). More where threads would wait for others.
    """
    gpu = device.type != "cpu"
    each = total // (REFERENCE.threads_per_multiprocessor * multiprocessors(device) if gpu else CPU_THREADS)
    return 1 if each < 2 else 2 if each < 4 else 4 if each < 32 else 8


def with_gpu(target: Target) -> Machine:
    """A machine with a GPU of that target, to ask what could run there."""
    return Machine("cuda", str(target), divmod(target.capability, 10), compiler=None, interpreting=False)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch computes with one thread on a CPU, while this is entered."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextlib.contextmanager
def planning(target: Target) -> Iterator[None]:
    """Launches on tensors of a CPU are planned for a GPU of that target: for those who watch launches and let none run."""
    global _planned
    before, _planned = _planned, target
    try:
        yield
    finally:
        _planned = before


def target(device: torch.device) -> Target:
    """The target whose limits a launch on a device keeps: of a GPU its own, of a CPU the reference or the planned one."""
    return _planned or REFERENCE if device.type == "cpu" else target_of(_capability(device))


def has(device: torch.device, feature: str) -> bool:
    """Whether a launch on a device can rely on a feature that only some targets have. The CPU runtime has none of them."""
    if device.type == "cpu":
        return _planned is not None and has_feature(divmod(_planned.capability, 10), feature)
    return has_feature(_capability(device), feature)


@functools.cache
def _capability(device: torch.device) -> tuple[int, int]:
    return torch.cuda.get_device_capability(device)
