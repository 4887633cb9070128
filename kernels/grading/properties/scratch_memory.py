"""A property against detours: values that are kept in memory of the submission's own, where no other property counts them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernels.grading.exercise import Property, Trial


def no_scratch_memory(*cases: str, name: str, advice: str, most: Callable[[Trial], int] = lambda trial: 0) -> Property:
    """From global memory that is none of the call's arguments, kernels load at most most(trial) bytes.

    cases: by default, all. advice: what to do in place of it, the end of the message.
    """

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in (one for one in trials if not cases or one.case in cases):
            given = {*trial.call.args, *trial.call.expected}
            loads = [one for one in trial.accesses if one.space == "global" and one.kind != "store"]
            back = [one for one in loads if not given.issuperset(one.names)]
            if (loaded := sum(one.bytes for one in back)) > most(trial):
                worst = max(back, key=lambda one: one.bytes)
                return (
                    f"line {worst.line} reads {', '.join(worst.names)}: {loaded:,} bytes are read back from "
                    f"global memory that is not an argument, where {most(trial):,} would do; {advice}\n(with {trial.where})"
                )
        return None

    return Property(name, broken, "costs")
