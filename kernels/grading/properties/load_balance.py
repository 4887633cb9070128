"""A property of how a kernel spreads its work over the warps of its launch, or the programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from kernels.grading.exercise import Property, Trial
from kernels.grading.properties.counters import counted
from kernels.hardware import WARP

_SLACK_OF_PROGRAMS = 2


def balanced(
    array: str,
    *cases: str,
    name: str = "the blocks share the work",
    least: int = 1,
    slack: float = 3,
    hint: str = "",
) -> Property:
    """No warp of CUDA C, or program of Triton, asks for an array much more often than if all of the launch took part.

    cases: by default, all. In some of them there may be nothing to do, such as for an empty image.
    least: so many warps or programs at least should have taken part, however few there are.
    slack: of CUDA C, how many times its share a warp may do. A thread may take a few elements where the launch has one for
        each; or a block, two tiles that change places.
    """

    def broken(trial: Trial) -> str | None:
        for trace in trial.traces:
            requests = sum(one.requests for one in trace.accesses if array in one.names)
            in_triton = trace.constants is not None
            warps = 1 if in_triton else -(-math.prod(trace.block) // WARP)
            share = -(-requests // max(trace.blocks * warps, least))
            busiest = trace.busiest[array] if requests else 0
            if busiest > math.ceil((_SLACK_OF_PROGRAMS if in_triton else slack) * share):
                who = "program" if in_triton else "warp"
                all_of = f"{trace.blocks} programs" if in_triton else f"{trace.blocks} blocks of {warps} warps"
                alike = f"if all {all_of} took part" if trace.blocks * warps >= least else f"with {least} programs"
                return (
                    f"one {who} makes {busiest:,} of {requests:,} requests to {array}, where {share} would do {alike}"
                )
        return None

    unevenly = counted(name, cases, broken, hint)

    def judge_trials(trials: Sequence[Trial]) -> str | None:
        if not any(array in access.names for one in trials for access in one.accesses):
            return f"no line reads or writes an array {array}"
        return unevenly.broken(trials)

    return replace(unevenly, broken=judge_trials)
