"""The kernels of this folder, each with a launch and what it should give."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from broken.edits import EDITS
from kernels import lens
from kernels.cuda import RawKernel
from kernels.listing import Listing

HERE = Path(__file__).parent


@dataclass(repr=False)
class Case:
    """A launch of the kernel `name` of <name>.cu, shown as its source with
    its lines numbered.

    args: by the kernel's parameters. expected: what some of them should
        hold afterwards, from float64.
    """

    name: str
    fixed: bool
    grid: tuple[int, ...]
    block: tuple[int, ...]
    args: dict[str, Any]
    expected: dict[str, torch.Tensor]
    shared_mem: int = 0

    @property
    def text(self) -> str:
        text = (HERE / f"{self.name}.cu").read_text()
        if not self.fixed or self.name not in EDITS:
            return text
        wrong, right = EDITS[self.name]
        before, after = text.split(wrong)  # it stands there once
        return before + right + after

    @property
    def kernel(self) -> RawKernel:
        return RawKernel(self.text, self.name)

    def trace(self, seed: int | None = None) -> lens.Trace:
        """Run it isolated, under the lens; `args` then hold the result."""
        return lens.trace(
            self.kernel,
            self.grid,
            self.block,
            tuple(self.args.values()),
            self.shared_mem,
            seed=seed,
        )

    def right(self) -> bool:
        """Whether the arguments hold what they should.

        Inputs are small integers, so that no sum rounds.
        """
        return all(
            torch.equal(self.args[name].cpu().double(), value)
            for name, value in self.expected.items()
        )

    def launch(self) -> str:
        """The launch in words."""
        words = [f"grid {self.grid}, block {self.block}"]
        if self.shared_mem:
            words.append(f"{self.shared_mem} bytes of shared memory")
        for name, arg in self.args.items():
            if isinstance(arg, torch.Tensor):
                words.append(f"{name} {'×'.join(map(str, arg.shape))}")
            else:
                words.append(f"{name} = {arg}")
        return ", ".join(words)

    def __repr__(self) -> str:
        # A number before an #include would leave no C++ to colour.
        numbered = [
            f"    {line}" if line.startswith("#") else f"{number:2}  {line}"
            for number, line in enumerate(self.text.splitlines(), 1)
        ]
        return "\n".join([f"// {self.launch()}", *numbered])

    def _repr_markdown_(self) -> str:
        return Listing(repr(self))._repr_markdown_()


def changes(broken: Case, fixed: Case) -> Listing:
    """What differs between two cases: lines of source, or of the launch."""
    before, after = (
        f"{case.launch()}\n{case.text}".splitlines()
        for case in (broken, fixed)
    )
    lines = list(difflib.unified_diff(before, after, n=1, lineterm=""))[3:]
    shown = ("…" if line[:2] == "@@" else line for line in lines)
    return Listing("\n".join(shown), "diff")


def numbers(*shape: int) -> torch.Tensor:
    """Integers from -8 to 8, always the same."""
    seed = torch.Generator().manual_seed(0)
    return torch.randint(-8, 9, shape, generator=seed).float()


def unwritten(*shape: int) -> torch.Tensor:
    return torch.full(shape, torch.nan)


def add_bias(fixed: bool = False) -> Case:
    x, bias = numbers(8, 100), torch.arange(1, 101).float()
    args = {"x": x, "bias": bias, "y": unwritten(8, 100), "N": 100}
    expected = {"y": x.double() + bias}
    return Case("add_bias", fixed, (8,), (32,), args, expected)


def difference(fixed: bool = False) -> Case:
    x = numbers(256)
    args = {"x": x, "y": unwritten(256)}
    expected = {"y": torch.diff(x.double(), prepend=torch.zeros(1))}
    return Case("difference", fixed, (4,), (64,), args, expected)


def sum_of_64(fixed: bool = False) -> Case:
    x = numbers(256)
    args = {"x": x, "sum": unwritten(4)}
    expected = {"sum": x.double().view(4, 64).sum(1)}
    return Case("sum_of_64", fixed, (4,), (64,), args, expected)


def transpose(fixed: bool = False, M: int = 60, N: int = 50) -> Case:
    x = numbers(M, N)
    args = {"x": x, "y": unwritten(N, M), "M": M, "N": N}
    grid = -(-N // 16), -(-M // 16)
    expected = {"y": x.double().T}
    return Case("transpose", fixed, grid, (16, 16), args, expected)


def row_max(fixed: bool = False) -> Case:
    x = numbers(4, 2000)
    args = {"x": x, "y": unwritten(4), "N": 2000}
    expected = {"y": x.double().amax(1)}
    shared = 4 * 16 if fixed else 4 * 8
    return Case("row_max", fixed, (4,), (512,), args, expected, shared)


def scale(fixed: bool = False) -> Case:
    x, factor = numbers(1025)[1:], np.float32(2)
    args = {"x": x, "y": unwritten(1024), "factor": factor, "n": 1024}
    expected = {"y": 2 * x.double()}
    return Case("scale", fixed, (4,), (64,), args, expected)


def largest(fixed: bool = False, n: int = 1000, factor: int = 1) -> Case:
    x, result = factor * numbers(n), torch.zeros(1, dtype=torch.int32)
    args = {"x": x, "largest": result, "n": n}
    bits = x.abs().max().view(1).view(torch.int32)
    expected = {"largest": bits.double()}
    return Case("largest", fixed, (4,), (256,), args, expected)


def last_block(fixed: bool = False) -> Case:
    x, done = numbers(256), torch.zeros(1, dtype=torch.int32)
    args = {"x": x, "partial": unwritten(8), "done": done}
    args["sum"] = unwritten(1)
    expected = {"sum": x.double().sum().view(1)}
    return Case("last_block", fixed, (8,), (32,), args, expected)


def column_sums(fixed: bool = False) -> Case:
    x = numbers(10, 64)
    args = {"x": x, "sums": unwritten(64), "rows": 10}
    expected = {"sums": x.double().sum(0)}
    return Case("column_sums", fixed, (1,), (64,), args, expected)


CASES = (add_bias, difference, sum_of_64, transpose, row_max)
CASES += (scale, largest, last_block, column_sums)
