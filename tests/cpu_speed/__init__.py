"""How fast CUDA C runs on a CPU: against Triton's interpreter, and against loops that the same compiler makes.

Every contestant runs on one core. The kernels are in kernels.cu, the loops in loops.cpp, all in float32.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from rich import box
from rich.table import Table

from cpu_speed.rows import ROWS, Row
from kernels.cuda.cpu import compiler
from kernels.machine import interpreting
from kernels.measure.timing import Spread, spread, time_together

__all__ = ["CONTESTANTS", "ROWS", "Loops", "Measured", "Row", "Spread", "measure", "table"]

CONTESTANTS = ("CUDA C", "interpreter", "loops")


@dataclass(frozen=True)
class Measured:
    """One operation: the time of one call by contestant."""

    name: str
    times: dict[str, Spread]

    def times_faster_than(self, contestant: str) -> float:
        return self.times[contestant].median_ms / self.times["CUDA C"].median_ms


def measure(row: Row, loops: Loops, rounds: int = 4) -> Measured:
    """Time one operation: every contestant in turn, in both orders, on new data every round.

    Raises:
        ArithmeticError: a contestant's timed result is wrong.
        RuntimeError: Triton is not interpreting.
    """
    if not interpreting():
        raise RuntimeError("Triton was imported as a compiler: set TRITON_INTERPRET=1 to time its interpreter")

    def inputs(seed: int) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        return {name: torch.randn(shape, generator=generator) for name, shape in row.shapes.items()}

    results = {name: torch.full(row.out, torch.nan) for name in CONTESTANTS}
    calls = {
        "CUDA C": row.cuda,
        "interpreter": row.triton,
        "loops": lambda data: row.loops(data, loops),
    }
    contestants = {name: lambda data, name=name: calls[name]({**data, "out": results[name]}) for name in CONTESTANTS}
    with _one_core():
        times, _, data = time_together(contestants, inputs, "cpu", rounds, calls=1)
    reference = row.reference(*(tensor.double() for tensor in data.values()))
    for name, result in results.items():
        error = (result - reference).abs().max().item()
        if not error <= 1e-5 * max(reference.abs().max().item(), 1.0):
            raise ArithmeticError(f"{row.name}, {name}: the largest error is {error:.2g}")
    return Measured(row.name, {name: spread(taken) for name, taken in times.items()})


def table(measured: list[Measured]) -> Table:
    """Times, and how many times faster CUDA C is than each of the others."""
    name = Path(compiler.command()[0]).name
    shown = Table(
        title=f"Milliseconds of one call in float32, on one core ({name})", box=box.SIMPLE_HEAD, pad_edge=False
    )
    shown.add_column("", no_wrap=True)
    for heading in ("CUDA C", "20–80 %", "Triton", "C++", "× Triton", "× C++"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for one in measured:
        ours = one.times["CUDA C"]
        shown.add_row(
            one.name,
            _digits(ours.median_ms),
            f"{_digits(ours.p20_ms)}–{_digits(ours.p80_ms)}",
            _digits(one.times["interpreter"].median_ms),
            _digits(one.times["loops"].median_ms),
            _digits(one.times_faster_than("interpreter")),
            _digits(one.times_faster_than("loops")),
        )
    shown.caption = "Triton: its interpreter. C++: plain loops. ×: how many times faster than that CUDA C is."
    return shown


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


class Loops:
    """loops.cpp, compiled at -O2 by the compiler that compiles kernels."""

    def __init__(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            library = Path(folder) / "loops.so"
            source = Path(__file__).parent / "loops.cpp"
            subprocess.run([*compiler.command(), "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
            self._library = ctypes.CDLL(str(library))

    def call(self, name: str, *args: object) -> None:
        """Call a loop with tensors, ints and np.float32."""
        getattr(self._library, name)(*map(_as_c, args))


def _as_c(arg: object) -> object:
    if isinstance(arg, torch.Tensor):
        return ctypes.c_void_p(arg.data_ptr())
    return ctypes.c_float(arg) if isinstance(arg, np.float32) else ctypes.c_int(arg)


@contextlib.contextmanager
def _one_core() -> Iterator[None]:
    """Everything of this process that starts from now on, on one core."""
    before, cores = os.environ.get("KERNELS_CPU_THREADS"), os.sched_getaffinity(0)
    os.environ["KERNELS_CPU_THREADS"] = "1"
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        del os.environ["KERNELS_CPU_THREADS"]
        if before is not None:
            os.environ["KERNELS_CPU_THREADS"] = before
