"""A launch as the lens counts it, beside the machine code that a GPU runs."""

from __future__ import annotations

from dataclasses import dataclass

from kernels import lens

from .comparable import differences
from .launch import Launch, text_of
from .launches import kernel
from .machine_code import MachineCode
from .source_loops import source_loops


@dataclass(frozen=True)
class Judged:
    """The lens's counters of a launch, and why they are not those of the machine code; none where they are."""

    totals: dict[str, int]
    differences: list[str]


def judged(launch: Launch, codes: dict[str, dict]) -> Judged:
    """Traces a launch. codes: the machine code of each kernel."""
    trace = lens.trace(kernel(launch), launch.grid, launch.block, launch.arguments("cpu"), launch.shared_mem)
    loops = source_loops(text_of(launch.path), launch.kernel)
    return Judged(trace.totals, differences(MachineCode.from_json(codes[launch.code]), trace.accesses, loops))
