"""A property against detours: values that are kept in memory of the submission's own, where no other property counts them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernels.grading.exercise import Property, Trial
from kernels.lens.rendering import VERBS


def no_scratch_memory(*cases: str, name: str, advice: str, most: Callable[[Trial], int] | None = None) -> Property:
    """Global memory that is none of the call's arguments and results is not used; or, with `most`, at most most(trial) bytes
    are loaded from it.

    cases: by default, all. advice: what to do in place of it, the end of the message.
    """

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in (one for one in trials if not cases or one.case in cases):
            given = {*trial.call.args, *trial.call.expected}
            own = [one for one in trial.accesses if one.space == "global" and not given.issuperset(one.names)]
            counted = [one for one in own if one.kind != "store"] if most else own
            allowed = most(trial) if most else 0
            if (moved := sum(one.bytes for one in counted)) > allowed:
                worst = max(counted, key=lambda one: one.bytes)
                return (
                    f"line {worst.line} {VERBS[worst.kind]} {', '.join(worst.names)}: {moved:,} bytes pass through "
                    f"global memory that is not an argument, where {allowed:,} would do; {advice}\n(with {trial.where})"
                )
        return None

    return Property(name, broken, "costs")
