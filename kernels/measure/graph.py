"""Calls too short to be timed one by one: what is timed is a CUDA graph of 20, each on inputs of its own.

A kernel of a few microseconds is no longer than what surrounds it when it is launched alone. A graph launches its kernels one
right after the other. No call finds its inputs in the L2 cache, since each has its own and the cache is overwritten before
the graph starts.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from kernels.measure.timing import time_together

GRAPH_CALLS = 20
SHORT_MS = 0.02
"""Where the fastest contestant takes less than this, all are timed by graphs."""

Prepare = Callable[[str, dict], dict]


@dataclass(frozen=True)
class Captured:
    """A graph, and what must live as long: it reads its inputs and writes its outputs where they lay when it was captured."""

    graph: torch.cuda.CUDAGraph
    inputs: list[dict]
    outputs: list[object]

    def replay(self) -> list[object]:
        self.graph.replay()
        return self.outputs


def time_graphs(
    contestants: dict[str, Callable[[dict], object]],
    inputs: Callable[[int], dict],
    device: str,
    rounds: int,
    prepare: Prepare,
) -> tuple[dict[str, list[float]], dict[str, object], dict]:
    """As `time_together`, with the same results, in milliseconds of one call; but each time is that of a graph, divided."""

    def captured(name: str, data: list[dict]) -> Captured:
        return capture(contestants[name], lambda one: prepare(name, one), data)

    replays = {name: Captured.replay for name in contestants}
    times, outputs, data = time_together(replays, lambda turn: _sets(inputs, turn), device, rounds, prepare=captured)
    one_call = {name: [ms / GRAPH_CALLS for ms in taken] for name, taken in times.items()}
    return one_call, {name: last[-1] for name, last in outputs.items()}, data[-1]


def refusals(
    contestants: dict[str, Callable[[dict], object]], inputs: Callable[[int], dict], prepare: Prepare
) -> dict[str, str]:
    """Who cannot be captured, and why: who waits for the GPU within a call, for one."""
    found, data = {}, inputs(0)
    for name, contestant in contestants.items():
        try:
            capture(contestant, lambda one, name=name: prepare(name, one), [data])
        except RuntimeError as error:
            found[name] = f"cannot be captured in a CUDA graph: {str(error).splitlines()[0]}"
    return found


def capture(contestant: Callable[[dict], object], prepare: Callable[[dict], dict], data: list[dict]) -> Captured:
    """A call of the contestant on each of the data, captured as one graph."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    # The outer `with` also leaves the stream after a capture that failed, which torch.cuda.graph does not.
    with torch.cuda.stream(stream):
        # A backward runs on the stream of its forward, so what is prepared is prepared on the stream that is captured.
        ready = [prepare(one) for one in data]
        contestant(ready[0])  # a library makes its workspace at the first call on a stream
        with torch.cuda.graph(graph, stream=stream):
            outputs = [contestant(one) for one in ready]
    return Captured(graph, ready, outputs)


def _sets(inputs: Callable[[int], dict], turn: int) -> list[dict]:
    return [inputs(GRAPH_CALLS * turn + number) for number in range(GRAPH_CALLS)]
