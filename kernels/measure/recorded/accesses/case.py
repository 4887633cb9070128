"""A launch that is measured on a GPU, and traced by the lens on any machine at a smaller size."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from kernels.cuda import Kernel, RawModule
from kernels.listing import Listing

FOLDER = Path(__file__).parent


class Launch(NamedTuple):
    """What `lens.trace(*launch)` and `kernels.lens` take, and `run` runs."""

    kernel: Kernel
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: tuple[Any, ...]
    shared_mem: int = 0

    def run(self) -> None:
        self.kernel(self.grid, self.block, self.args, self.shared_mem)


@dataclass(frozen=True)
class Case:
    """One launch, at any size.

    Args:
        make: (n, generator of random numbers) → the launch, with its tensors on the generator's device.
        right: its args, after any number of runs → whether they hold what the kernel is to compute.
        measured, few: n as it is measured, and as few as show the pattern.
        bytes: n → the fewest bytes that the kernel must read and write, or None where bytes are not what it is about.
    """

    make: Callable[[int, torch.Generator], Launch]
    right: Callable[..., bool]
    measured: int
    few: int
    bytes: Callable[[int], int] | None = None

    def launch(self, device: str = "cpu", n: int | None = None, seed: int = 0) -> Launch:
        """The launch with its tensors on `device`: by default of few elements on a CPU, of as many as are measured on a GPU."""
        n = n or (self.measured if device == "cuda" else self.few)
        return self.make(n, torch.Generator(device).manual_seed(seed))

    @property
    def source(self) -> Path:
        """The file of the kernel."""
        return FOLDER / self.launch().kernel._module._source.filename

    def function(self, *names: str) -> Listing:
        """Functions of that file, each with the comment above it; by default the kernel."""
        return Listing.from_kernel(self.source, *(names or [self.launch().kernel.name.split("<")[0]]))


@functools.cache
def _module(file: str) -> RawModule:
    return RawModule(path=FOLDER / file, options=("-std=c++17",))


@functools.cache
def kernel(file: str, name: str) -> Kernel:
    """A kernel of this folder, by its file and its name or template instance."""
    return _module(file).get_function(name)


def one_each(n: int, threads: int = 256) -> tuple[tuple[int], tuple[int]]:
    """Grid and block that give each of n elements a thread."""
    return (-(-n // threads),), (threads,)


def floats(n: int, random: torch.Generator) -> torch.Tensor:
    return torch.randn(n, generator=random, device=random.device)


def unwritten(n: int, random: torch.Generator, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """NaN, or -1 in integers: where a kernel does not write, `right` sees it."""
    return torch.full((n,), float("nan") if dtype.is_floating_point else -1, dtype=dtype, device=random.device)
