"""Times of several contestants, taken together.

On a GPU: every call starts with a cold L2 cache (a buffer larger than it is overwritten first, with no synchronisation
between that and the start event, so the GPU is never idle when the clock starts), and is timed by events on the stream. On
a CPU: a wall clock around the call, and one thread, since several wait for each other whenever another program takes a core.
Contestants take turns within a round, in both orders, on fresh data each round, so that drift of clocks and temperature
falls on all of them alike.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

COLD_BYTES = 256 * 2**20  # several times the L2 cache of any GPU so far


@dataclass(frozen=True)
class Spread:
    """Milliseconds: the median and the 20th and 80th percentiles."""

    median_ms: float
    p20_ms: float
    p80_ms: float


def spread(times_ms: list[float]) -> Spread:
    """Median and percentiles of at least two times."""
    fifths = statistics.quantiles(times_ms, n=5, method="inclusive")
    return Spread(statistics.median(times_ms), fifths[0], fifths[3])


def time_together(
    contestants: dict[str, Callable[[dict], object]],
    inputs: Callable[[int], dict],
    device: str,
    rounds: int = 6,
    calls: int = 5,
) -> tuple[dict[str, list[float]], dict[str, object], dict]:
    """Time every contestant `rounds` × `calls` times.

    Args:
        contestants: by name; each takes the inputs.
        inputs: round → the data of that round.
        device: "cpu" or "cuda".
        rounds: each with fresh data; odd rounds run in reverse order.
        calls: timed in a row by one contestant, each from a cold L2 cache.

    Returns:
        times in milliseconds by contestant; the last timed outputs by contestant; the inputs that gave them.
    """
    if device == "cuda":
        return _take_turns(contestants, inputs, _gpu_times, rounds, calls)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _take_turns(contestants, inputs, _cpu_times, rounds, calls)
    finally:
        torch.set_num_threads(threads)


def _take_turns(
    contestants: dict[str, Callable[[dict], object]],
    inputs: Callable[[int], dict],
    timer: Callable[[Callable[[dict], object], dict, int], tuple[list[float], object]],
    rounds: int,
    calls: int,
) -> tuple[dict[str, list[float]], dict[str, object], dict]:
    times: dict[str, list[float]] = {name: [] for name in contestants}
    outputs: dict[str, object] = {}
    data = inputs(0)
    for contestant in contestants.values():  # compilers, caches and clocks warm up outside the measurement
        timer(contestant, data, calls)
    for turn in range(rounds):
        data = inputs(turn)
        order = list(contestants) if turn % 2 == 0 else list(reversed(contestants))
        for name in order:
            taken, outputs[name] = timer(contestants[name], data, calls)
            times[name] += taken
    return times, outputs, data


def _gpu_times(contestant: Callable[[dict], object], data: dict, calls: int) -> tuple[list[float], object]:
    cold = torch.empty(COLD_BYTES, dtype=torch.int8, device="cuda")
    starts = [torch.cuda.Event(enable_timing=True) for _ in range(calls)]
    ends = [torch.cuda.Event(enable_timing=True) for _ in range(calls)]
    output = None
    for start, end in zip(starts, ends, strict=True):
        cold.zero_()
        start.record()
        output = contestant(data)
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) for start, end in zip(starts, ends, strict=True)], output


def _cpu_times(contestant: Callable[[dict], object], data: dict, calls: int) -> tuple[list[float], object]:
    times, output = [], None
    for _ in range(calls):
        start = time.perf_counter()
        output = contestant(data)
        times.append((time.perf_counter() - start) * 1e3)
    return times, output
