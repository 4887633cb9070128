"""Small CUDA kernels whose counters and times teach: which thread takes which element, banks, atomics, branches, latency.

Every case is a launch. The lens counts it on any machine, at a small size: `lens.trace(*CASES["strides"][8].launch())`.
Its time at full size was taken on a GPU: `times("NVIDIA H200", "strides")[8]`,
by book/recorders/accesses.py.
"""

import json

from kernels.measure.recorded.accesses import global_memory, on_chip
from kernels.measure.recorded.accesses.case import Case, Launch
from kernels.measure.results import FOLDER, file_name

__all__ = ["CASES", "Case", "Launch", "rates", "stored", "times"]

CASES: dict[str, dict[object, Case]] = {**global_memory.GROUPS, **on_chip.GROUPS}
"""By group and case: CASES["strides"][8], CASES["copies"]["float4", 64], CASES["transposes"]["padded tile"]."""


def stored(gpu: str) -> dict:
    """The committed record of a GPU by its name, such as "NVIDIA H200": `machine`, and by group the measured cases,
    {"case", "n", "median_us", "p20_us", "p80_us"} each. The times are from a cold L2 cache."""
    return json.loads((FOLDER / "accesses" / file_name(gpu)).read_text())


def times(gpu: str, group: str) -> dict[object, float]:
    """The median microseconds of each case of a group."""
    return {_key(row["case"]): row["median_us"] for row in stored(gpu)["groups"][group]}


def rates(gpu: str, group: str) -> dict[object, float]:
    """The fewest bytes of each case of a group over its time, in GB/s."""
    rows = stored(gpu)["groups"][group]
    return {_key(row["case"]): CASES[group][_key(row["case"])].bytes(row["n"]) / row["median_us"] / 1e3 for row in rows}


def _key(case: object) -> object:
    return tuple(case) if isinstance(case, list) else case  # JSON has no tuples
