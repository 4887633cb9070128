"""Kernels of the folder `bugs`: each with its launch in a comment before it, and marks on the lines that are wrong."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import torch

FOLDER = Path(__file__).parent / "bugs"


def floats(count: int) -> torch.Tensor:
    return torch.arange(1, count + 1, dtype=torch.float32)


def zeros(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(count, dtype=dtype)


def integers(count: int, below: int) -> torch.Tensor:
    return torch.randint(0, below, (count,), dtype=torch.int32, generator=torch.Generator().manual_seed(1))


class Bug(NamedTuple):
    """launch: grid, block, arguments and perhaps shared memory, as text. kinds: of findings, by the lines marked with them."""

    path: Path
    kernel: str
    launch: str
    kinds: dict[int, str]

    def __str__(self) -> str:
        return f"{self.path.stem}-{self.kernel}"

    def arguments(self) -> tuple[Any, ...]:
        return eval(self.launch)  # of the functions above


def bugs() -> list[Bug]:
    """All of them."""
    return [bug for path in sorted(FOLDER.glob("*.cu")) for bug in _of(path)]


def _of(path: Path) -> list[Bug]:
    found: list[Bug] = []
    launch = ""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if match := re.match(r"// launch: (.*)", line):
            launch = match.group(1)
        elif match := re.match(r'extern "C" __global__ void (\w+)', line):
            found.append(Bug(path, match.group(1), launch, {}))
        elif match := re.search(r"// bug: (.*)", line):
            found[-1].kinds[number] = match.group(1)
    return found
