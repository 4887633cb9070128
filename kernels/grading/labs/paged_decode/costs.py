"""What both kernels may ask for: requests of warps to some arrays."""

from __future__ import annotations

from collections.abc import Callable

from kernels.grading.exercise import Property, Trial
from kernels.grading.properties.counters import counted


def requests(name: str, arrays: tuple[str, ...], most: Callable[[Trial], int], advice: str) -> Property:
    """Those to the arrays are at most most(trial)."""

    def broken(trial: Trial) -> str | None:
        found = [one for one in trial.accesses if set(arrays) & set(one.names)]
        if (asked := sum(one.requests for one in found)) <= (limit := most(trial)):
            return None
        worst = max(found, key=lambda one: one.requests)
        return (
            f"{asked:,} requests of warps to {' and '.join(arrays)}, where {limit:,} would do: line {worst.line} makes "
            f"{worst.requests:,}, with {worst.lanes_per_request:.3g} lanes each; {advice}"
        )

    return counted(name, (), broken, "")
