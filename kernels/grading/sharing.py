"""A property of how a kernel in CUDA C spreads its work over the blocks of its launch."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from kernels.grading.exercise import Property, Trial

_SLACK = 2  # times the share of a warp; a trace keeps eight requests, so shares of up to three can be judged


def by_blocks(array: str, case: str, hint: str) -> Property:
    """No warp writes to an array much more often than if all warps of the launch took part.

    It is judged by the first warp that writes: of it, the trace keeps the first requests (`kernels.lens.Access.samples`).
    """

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in (one for one in trials if one.case == case):
            blocks, warps = math.prod(trial.call.grid), -(-math.prod(trial.call.block) // 32)
            for access in (one for one in trial.accesses if one.kind == "store" and array in one.names):
                share = max(1, -(-access.requests // (blocks * warps)))
                for (block, warp), turns in Counter((one.block, one.warp) for one in access.samples).items():
                    if turns > _SLACK * share:
                        return (
                            f"line {access.line}: warp {warp} of block {block} writes {array} {turns} times or more, where "
                            f"{share} would do if all {blocks} blocks took part\n(with {trial.where})"
                        )
        return None

    return Property("the blocks share the work", broken, "costs", hint)
