"""How closely the contestants at one point are timed: single calls or graphs of them, and in how many rounds."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch

from kernels.measure.graph import GRAPH_CALLS, SHORT_MS, Prepare, refusals, time_graphs
from kernels.measure.ratios import in_doubt
from kernels.measure.timing import time_together

ROUNDS = 6
MORE_ROUNDS = 30
"""Where a first timing leaves in doubt whether a variant has reached what it is held against."""
SLOW = 0.1
"""Seconds of a call on a GPU that is not timed beside the others: some hundred of them would take most of a bench."""
ENDLESS = 1.0
"""Seconds of a second call after which there is no third: one may compile, but hardly so long once more."""


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
    if device == "cpu":
        return Timed(*time_together(calls, inputs, device, ROUNDS, prepare=prepare))
    refused = slow(kinds, calls, inputs, prepare)
    calls = {name: call for name, call in calls.items() if name not in refused}
    timer, graph_calls = time_together, None
    timed = Timed(*timer(calls, inputs, device, ROUNDS, prepare=prepare), refused=refused)
    if min(_medians(timed).values()) < SHORT_MS:
        refused |= refusals(calls, inputs, prepare)
        calls = {name: call for name, call in calls.items() if name not in refused}
        timer, graph_calls = time_graphs, GRAPH_CALLS
        timed = Timed(*timer(calls, inputs, device, ROUNDS, prepare=prepare), ROUNDS, graph_calls, refused)
    if in_doubt(_medians(timed), kinds):
        timed = Timed(*timer(calls, inputs, device, MORE_ROUNDS, prepare=prepare), MORE_ROUNDS, graph_calls, refused)
    return timed


def slow(
    kinds: Mapping[str, str],
    calls: Mapping[str, Callable[[dict], object]],
    inputs: Callable[[int], dict],
    prepare: Prepare,
) -> dict[str, str]:
    """Whose calls take longer than SLOW on the GPU, and how long they take: the least of a few, since the first ones may
    compile. And which peers refuse these inputs: what they raise."""
    found, data = {}, inputs(0)
    for name, call in calls.items():
        try:
            least = _least_seconds(call, prepare(name, data))
        except Exception as error:
            if kinds[name] != "peer":
                raise
            found[name] = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
        else:
            if least > SLOW:
                found[name] = f"a call takes {least:.2g} s"
    return found


def _least_seconds(call: Callable[[dict], object], ready: dict) -> float:
    """Of three calls, or of fewer where one is not slow, or both of two are ENDLESS."""
    least = float("inf")
    for number in range(3):
        torch.cuda.synchronize()
        began = time.perf_counter()
        call(ready)
        torch.cuda.synchronize()
        least = min(least, time.perf_counter() - began)
        if least <= SLOW or (number and least > ENDLESS):
            break
    return least


def _medians(timed: Timed) -> dict[str, float]:
    return {name: statistics.median(taken) for name, taken in timed.times.items()}
