"""Times of several contestants, taken together.

On a GPU: every call starts with a cold L2 cache (a buffer larger than it is overwritten first, with no synchronisation
between that and the start event), and is timed by events on the stream. The host is ahead of the GPU all the while, so that
the events enclose the GPU's work and none of Python's; `host_us` gives the host's part on its own. On a CPU: a wall clock
around the call, and one thread, since several wait for each other whenever another program takes a core. Contestants take
turns within a round, in both orders, on fresh data each round, so that drift of clocks and temperature falls on all alike.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from kernels.machine import one_thread

COLD_BYTES = 256 * 2**20  # several times the L2 cache of any GPU so far
CYCLES_PER_SECOND = 2e9  # of a GPU at its highest clock, about; at a lower one a spin only lasts longer
CALLS = 5  # of a contestant in a round
LONG = 0.05  # seconds of a call that makes more launches than a GPU's queue holds: its time is the host's, spin or not
SPINS = 4  # times that a spin is doubled before a contestant is taken for one that waits for the GPU itself


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
    calls: int = CALLS,
    prepare: Callable[[str, dict], dict] = lambda name, data: data,
    warmup: int | None = None,
) -> tuple[dict[str, list[float]], dict[str, object], dict]:
    """Time every contestant `rounds` × `calls` times.

    Args:
        contestants: by name; each takes the inputs.
        inputs: round → the data of that round.
        device: "cpu" or "cuda".
        rounds: each with fresh data; odd rounds run in reverse order.
        calls: timed in a row by one contestant, each from a cold L2 cache.
        prepare: (contestant's name, the round's data) → what it takes, made outside the clock and dropped after its turn.
        warmup: calls of each before the first round; as many as `calls` unless said.

    Returns:
        times in milliseconds by contestant; the last timed outputs by contestant; the inputs that gave them.
    """
    warmup = calls if warmup is None else warmup
    if device == "cuda":
        return _take_turns(contestants, inputs, _gpu_times, rounds, calls, prepare, warmup)
    with one_thread():
        return _take_turns(contestants, inputs, _cpu_times, rounds, calls, prepare, warmup)


def _take_turns(
    contestants: dict[str, Callable[[dict], object]],
    inputs: Callable[[int], dict],
    timer: Callable[[Callable[[dict], object], dict, int], tuple[list[float], object]],
    rounds: int,
    calls: int,
    prepare: Callable[[str, dict], dict],
    warmup: int,
) -> tuple[dict[str, list[float]], dict[str, object], dict]:
    times: dict[str, list[float]] = {name: [] for name in contestants}
    outputs: dict[str, object] = {}
    data = inputs(0)
    if warmup:  # compilers, caches and clocks warm up outside the measurement
        for name, contestant in contestants.items():
            timer(contestant, prepare(name, data), warmup)
    for turn in range(rounds):
        data = inputs(turn)
        order = list(contestants) if turn % 2 == 0 else list(reversed(contestants))
        for name in order:
            taken, outputs[name] = timer(contestants[name], prepare(name, data), calls)
            times[name] += taken
    return times, outputs, data


def _gpu_times(contestant: Callable[[dict], object], data: dict, calls: int) -> tuple[list[float], object]:
    cold = torch.empty(COLD_BYTES, dtype=torch.int8, device="cuda")
    contestant(data)  # the first call of all may compile, for seconds
    began = time.perf_counter()
    contestant(data)
    took = time.perf_counter() - began
    spin, tries = (2 * calls * took, SPINS) if took < LONG else (0.0, 1)
    torch.cuda.synchronize()
    for _ in range(tries):
        starts = [torch.cuda.Event(enable_timing=True) for _ in range(calls)]
        ends = [torch.cuda.Event(enable_timing=True) for _ in range(calls)]
        output = None
        # Autograd's Python can take longer than overwriting the buffer, and the GPU would then wait for the host with the
        # clock running. So the GPU is kept busy until every call is queued.
        torch.cuda._sleep(int(spin * CYCLES_PER_SECOND))
        for start, end in zip(starts, ends, strict=True):
            cold.zero_()
            start.record()
            output = contestant(data)
            end.record()
        was_ahead = not starts[0].query()
        torch.cuda.synchronize()
        if was_ahead:
            break
        spin *= 2
    return [start.elapsed_time(end) for start, end in zip(starts, ends, strict=True)], output


def _cpu_times(contestant: Callable[[dict], object], data: dict, calls: int) -> tuple[list[float], object]:
    times, output = [], None
    for _ in range(calls):
        start = time.perf_counter()
        output = contestant(data)
        times.append((time.perf_counter() - start) * 1e3)
    return times, output


def host_us(call: Callable[[], object], device: str, calls: int = 100) -> float:
    """Microseconds that one call keeps the host, the median of `calls`, with no synchronisation between them.

    On an empty tensor that is what checking, dispatch and allocation cost, since there is nothing to compute.
    """
    for _ in range(10):
        call()
    times = []
    for _ in range(calls):
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    if device == "cuda":
        torch.cuda.synchronize()
    return statistics.median(times) / 1e3
