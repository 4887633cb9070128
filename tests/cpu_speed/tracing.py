"""What isolation and tracing cost on this CPU.

    PYTHONPATH=.:tests python -m cpu_speed.tracing       print both tables

The first: a small launch in this process, isolated and traced. Its time as seen from here, and the processor's time that
all processes took for it, which other work on the machine changes less. The second: lane accesses a second of a launch in
this process, on one OS thread; and of a trace of it, from compiled kernel to result, with findings looked for. Its last
row: of all of these launches, one after another.
"""

from __future__ import annotations

import functools
import os
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from rich import box
from rich.console import Console
from rich.table import Table

from cpu_speed.rows import ROWS, Row
from kernels import lens, worker
from kernels.cuda import RawKernel, isolated

KERNEL = RawKernel(
    """extern "C" __global__ void twice(float* x, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] *= 2;
    }""",
    "twice",
)
_TICKS = os.sysconf("SC_CLK_TCK")


class Overhead(NamedTuple):
    """Of one call: milliseconds here (median), and of the processor's time (mean)."""

    way: str
    wall_ms: float
    processor_ms: float


class Speed(NamedTuple):
    """Of one launch: its lane accesses, and the seconds that it takes: not traced, traced, and of the processor for that."""

    name: str
    accesses: int
    untraced: float
    traced: float
    processor: float


@functools.cache  # to ask takes a call, which is not what is measured
def _worker() -> int:
    """The process that forks one for every call."""
    return worker.run(os.getppid)


def processor_seconds() -> float:
    """The processor's time that this process, its worker and all that this has forked have taken."""
    with open(f"/proc/{_worker()}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return time.process_time() + sum(map(int, fields[11:15])) / _TICKS  # man 5 proc: utime, stime, cutime, cstime


def overheads(size: int, calls: int = 100) -> list[Overhead]:
    """Of a launch on so many floats, in each way in turn."""
    x = torch.ones(size)
    launch = (-(-size // 256),), (256,), (x, size)
    ways = {
        "in this process": lambda: KERNEL(*launch),
        "isolated": lambda: isolated(KERNEL, *launch),
        "traced": lambda: lens.trace(KERNEL, *launch),
    }
    return [_overhead(way, call, calls) for way, call in ways.items()]


def _overhead(way: str, call: Callable[[], object], calls: int) -> Overhead:
    call()  # compiles
    walls = []
    before = processor_seconds()
    for _ in range(calls):
        walls.append(_seconds(call))
    return Overhead(way, 1e3 * statistics.median(walls), 1e3 * (processor_seconds() - before) / calls)


def speed(row: Row, rounds: int = 3) -> Speed:
    """Of one of the kernels that `bench cuda-cpu` times; medians of so many rounds."""
    data = {name: torch.ones(shape) for name, shape in (row.shapes | {"out": row.out}).items()}
    found = lens.count(lambda: row.cuda(data))  # compiles
    lanes = sum(access.lanes for trace in found.traces for access in trace.accesses)
    untraced = [_seconds(lambda: row.cuda(data)) for _ in range(rounds)]
    traced, processor = [], []
    for _ in range(rounds):
        before = processor_seconds()
        traced.append(_seconds(lambda: lens.count(lambda: row.cuda(data))))
        processor.append(processor_seconds() - before)
    return Speed(row.name, lanes, *map(statistics.median, (untraced, traced, processor)))


def together(speeds: list[Speed]) -> Speed:
    """Of all of the launches, one after another."""
    _, accesses, *seconds = zip(*speeds, strict=True)
    return Speed("together", sum(accesses), *map(sum, seconds))


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def overheads_table(size: int, measured: list[Overhead]) -> Table:
    table = Table(
        "", "here", "of the processor", title=f"Milliseconds of a launch on {size:,} floats", box=box.SIMPLE_HEAD
    )
    for one in measured:
        table.add_row(one.way, f"{one.wall_ms:.1f}", f"{one.processor_ms:.1f}")
    return table


def speeds_table(measured: list[Speed]) -> Table:
    columns = "not traced", "traced", "a second of the processor"
    table = Table("", "accesses", *columns, title="Million lane accesses a second", box=box.SIMPLE_HEAD)
    for one in measured:
        seconds = one.untraced, one.traced, one.processor
        table.add_row(one.name, f"{one.accesses:,}", *(f"{one.accesses / each / 1e6:.1f}" for each in seconds))
    return table


if __name__ == "__main__":
    console = Console()
    os.environ["KERNELS_CPU_THREADS"] = "1"  # as a trace has it
    for count in (64, 1 << 20):
        console.print(overheads_table(count, overheads(count)))
    speeds = [speed(row) for row in ROWS]
    console.print(speeds_table([*speeds, together(speeds)]))
