"""How closely the contestants at one point are timed: single calls or graphs of them, and in how many rounds."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kernels.measure.graph import GRAPH_CALLS, SHORT_MS, Prepare, refusals, time_graphs
from kernels.measure.ratios import in_doubt
from kernels.measure.timing import time_together

ROUNDS = 6
MORE_ROUNDS = 30
"""Where a first timing leaves in doubt whether a variant has reached what it is held against."""


@dataclass(frozen=True)
class Timed:
    """What the contestants took at one point.

    Args:
        times: milliseconds of one call by contestant, in the order taken, timing.CALLS in every round.
        outputs: of the last timed call, by contestant.
        data: that call's inputs, as `make_data` made them.
        rounds: how many.
        graph_calls: in each CUDA graph that was timed, or None where single calls were.
        refused: who could not be timed so, and why.
    """

    times: dict[str, list[float]]
    outputs: dict[str, object]
    data: dict
    rounds: int = ROUNDS
    graph_calls: int | None = None
    refused: dict[str, str] = field(default_factory=dict)


def time_point(
    kinds: Mapping[str, str],
    calls: dict[str, Callable[[dict], object]],
    inputs: Callable[[int], dict],
    device: str,
    prepare: Prepare,
) -> Timed:
    """Time all contestants; on a GPU by graphs where calls are short, and in more rounds where the result is in doubt.

    Args:
        kinds: "variant", "peer" or "copy", by contestant.
        calls, inputs, device, prepare: as `time_together` takes them.
    """
    timed = Timed(*time_together(calls, inputs, device, ROUNDS, prepare=prepare))
    if device == "cpu":
        return timed
    timer, how = time_together, {}
    if min(_medians(timed).values()) < SHORT_MS:
        refused = refusals(calls, inputs, prepare)
        calls = {name: call for name, call in calls.items() if name not in refused}
        timer, how = time_graphs, {"graph_calls": GRAPH_CALLS, "refused": refused}
        timed = Timed(*timer(calls, inputs, device, ROUNDS, prepare=prepare), **how)
    if in_doubt(_medians(timed), kinds):
        timed = Timed(*timer(calls, inputs, device, MORE_ROUNDS, prepare=prepare), MORE_ROUNDS, **how)
    return timed


def _medians(timed: Timed) -> dict[str, float]:
    return {name: statistics.median(taken) for name, taken in timed.times.items()}
