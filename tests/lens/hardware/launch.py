"""One launch whose counters are compared with hardware, and the data that it is given."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kernels.cuda.includes import expanded

FOLDER = Path(__file__).parent
# Line numbers in the machine code; the code itself is the same without it. A CPU's compiler has no use for it.
OPTIONS = ("-lineinfo",)


def text_of(path: Path) -> str:
    """A file with our own headers in place, whose lines are counted through: the machine code is compared line by line."""
    code, _ = expanded(path.read_text(), path.name, path.parent)
    return re.sub(r"^#line .*\n", "", code, flags=re.MULTILINE)


class Data:
    """Makes a launch's tensors: the same numbers on every machine and device, each tensor `offset` elements behind the
    beginning of its storage."""

    def __init__(self, device: str) -> None:
        self._random = np.random.default_rng(0)
        self._device = device

    def normal(self, n: int, dtype: torch.dtype = torch.float32, offset: int = 0) -> torch.Tensor:
        """n normally distributed numbers."""
        return self._place(torch.from_numpy(self._random.standard_normal(n)).to(dtype), offset)

    def integers(self, low: int, high: int, n: int, dtype: torch.dtype = torch.int32, offset: int = 0) -> torch.Tensor:
        """n integers from low to high - 1."""
        return self._place(torch.from_numpy(self._random.integers(low, high, n)).to(dtype), offset)

    def permutation(self, n: int) -> torch.Tensor:
        """The integers below n in a random order, int32."""
        return self.given(self._random.permutation(n).astype(np.int32))

    def sorted(self, n: int) -> torch.Tensor:
        """n normally distributed numbers in ascending order."""
        return self.given(np.sort(self._random.standard_normal(n).astype(np.float32)))

    def zeros(self, n: int, dtype: torch.dtype = torch.float32, offset: int = 0) -> torch.Tensor:
        """n zeros, for an output."""
        return self._place(torch.zeros(n, dtype=dtype), offset)

    def given(self, values: np.ndarray) -> torch.Tensor:
        """These values."""
        return self._place(torch.from_numpy(np.ascontiguousarray(values)), 0)

    def _place(self, values: torch.Tensor, offset: int) -> torch.Tensor:
        storage = torch.zeros(offset + len(values), dtype=values.dtype, device=self._device)
        storage[offset:] = values
        return storage[offset:]


@dataclass(frozen=True)
class Launch:
    """A kernel of a `.cu` file, named from this folder, with a grid, a block and a maker of its arguments.

    wide_atomics: its atomic requests touch eight 128-byte lines or more. Hardware then counts up to one sector more for a
    request than the lens, by a rule that is not known.
    """

    name: str
    file: str
    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: Callable[[Data], tuple[Any, ...]]
    shared_mem: int = 0
    wide_atomics: bool = False

    @property
    def path(self) -> Path:
        return (FOLDER / self.file).resolve()

    @property
    def code(self) -> str:
        """A name for the kernel's machine code, which several launches may share."""
        return f"{self.path.name} {self.kernel}"

    @property
    def digest(self) -> str:
        """Of the kernel's source: counters and line numbers hold for one text."""
        return hashlib.sha256(text_of(self.path).encode()).hexdigest()[:16]

    def arguments(self, device: str) -> tuple[Any, ...]:
        """The arguments, with tensors on `device`."""
        return self.args(Data(device))
