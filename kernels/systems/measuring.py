"""Functions timed: what a measurement must not count, and wrong results that must not get a time."""

import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch

from kernels.claims import Claim, Number
from kernels.machine import one_thread
from kernels.measure.benchmark import Benchmark, benchmark, compare_functions
from kernels.measure.race import Race, race
from kernels.measure.timing import CYCLES_PER_SECOND, spread
from kernels.system import Shown, System


class Measuring(NamedTuple):
    benchmark: Callable[..., Benchmark]
    compare: Callable[..., Race]


class Work:
    """Keeps a device busy for some milliseconds at each call, and for longer at those that are named."""

    def __init__(self, device: str, ms: float, slow: Mapping[int, float] | None = None) -> None:
        self.device, self.ms, self.slow, self.calls = device, ms, slow or {}, 0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        ms = self.slow.get(self.calls, self.ms)
        if self.device == "cuda":
            torch.cuda._sleep(int(ms * 1e-3 * CYCLES_PER_SECOND))
        else:
            time.sleep(ms * 1e-3)
        return x


def check(make: Measuring, device: str) -> tuple[float, str | None]:
    """Work of known length: how often it is called, slow first calls, one slow call later; then functions that are wrong."""
    x = torch.randn(4, device=device)
    first = Work(device, 1, slow={1: 30, 2: 30})
    found = make.benchmark(first, x, warmup=3, repeat=2)
    if first.calls < 5:
        return math.inf, f"{first.calls} calls of 3 to warm up and 2 to time"
    if found.p80_ms > 15:
        return math.inf, f"{found.p80_ms:.3g} ms: calls before the clock starts were counted"
    # On a GPU it is called a few times more, to learn how far the host must be ahead.
    found = make.benchmark(Work(device, 1, slow={12: 100}), x, warmup=0, repeat=15)
    if not 0.5 < found.median_ms < 6:
        return math.inf, f"{found.median_ms:.3g} ms, where one call of fifteen took a hundred and the others one"
    run = make.compare({"short": Work(device, 1), "long": Work(device, 8)}, x)
    if not 2 < run.ratio("long", "short").median < 20:
        return math.inf, f"eight times the work is said to take {run.ratio('long', 'short').median:.3g} times as long"
    for name, fn in {
        "off": lambda x: x * 1.01,
        "another shape": lambda x: x[:3],
        "in place": lambda x: x.add_(1),
    }.items():
        try:
            make.compare({"right": lambda x: x + 0, name: fn}, x.clone())
        except (ArithmeticError, ValueError) as error:
            if name not in str(error):
                return math.inf, f"the error does not name {name}: {error}"
        else:
            return math.inf, f"{name} got a time"
    return 0.0, None


def _times(fn: Callable[..., Any], args: tuple, repeat: int) -> list[float]:
    found = []
    for _ in range(repeat):
        began = time.perf_counter()
        fn(*args)
        found.append((time.perf_counter() - began) * 1e3)
    return found


def without_warmup(fn: Callable[..., Any], *args: Any, warmup: int = 5, repeat: int = 30) -> Benchmark:
    taken = spread(_times(fn, args, warmup + repeat))
    return Benchmark(taken.median_ms, taken.p20_ms, taken.p80_ms, "cpu", repeat)


def mean(fn: Callable[..., Any], *args: Any, warmup: int = 5, repeat: int = 30) -> Benchmark:
    _times(fn, args, warmup)
    taken = _times(fn, args, repeat)
    return Benchmark(sum(taken) / repeat, min(taken), max(taken), "cpu", repeat)


def shapes_alone(functions: Mapping[str, Callable[..., Any]], *args: Any) -> Race:
    """Compares shapes, and not values."""
    return race({name: partial(_shape, fn, args) for name, fn in functions.items()}, "cpu", rounds=1)


def _shape(fn: Callable[..., Any], args: tuple) -> torch.Tensor:
    return torch.tensor(fn(*args).shape)


def one_after_the_other(functions: Mapping[str, Callable[..., Any]], *args: Any) -> Race:
    """Gives each what the one before has left of the arguments, and compares nothing."""
    return Race("cpu", {name: spread(_times(fn, args, 5)) for name, fn in functions.items()})


def steadiness(device: str) -> Mapping[str, Number]:
    """How far the minimum, the median and the mean of 20 calls lie from what they usually are, in 40 such runs: with nothing
    beside them, and beside as many busy programs as there are cores."""
    x, found = torch.randn(256, 512), {}
    beside = [sys.executable, "-c", "while True: pass"]
    for where, count in (("alone", 0), ("beside others", os.cpu_count() or 1)):
        others = [subprocess.Popen(beside) for _ in range(count)]
        try:
            with one_thread():
                runs = [_times(lambda x: x.softmax(-1), (x,), 20) for _ in range(41)][1:]
        finally:
            for other in others:
                other.kill()
                other.wait()
        for name, of in (("minimum", min), ("median", statistics.median), ("mean", statistics.fmean)):
            taken = [of(run) for run in runs]
            usual = statistics.median(taken)
            found[f"{name}, {where}"] = Number.of([100 * abs(one / usual - 1) for one in taken], "% off")
    return found


def _not_here(name: str, text: str, reason: str) -> Claim:
    return Claim(name, text, "optimization framework", "none given", "not measurable here", reason)


def demo(device: str, quick: bool) -> Shown:
    rows = 128 if quick else 1_024
    x = torch.randn(rows, 512, device=device)

    def written_out(x: torch.Tensor) -> torch.Tensor:
        exponentials = torch.exp(x - x.amax(-1, keepdim=True))
        return exponentials / exponentials.sum(-1, keepdim=True)

    def without_maximum(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x) / torch.exp(x).sum()

    run = compare_functions({"written out": written_out, "one operator": lambda x: x.softmax(-1)}, x)
    try:
        compare_functions({"written out": written_out, "over all rows": without_maximum}, x)
    except ArithmeticError as error:
        refused = str(error).splitlines()[0].partition(":")[0]
    return Shown(
        f"softmax of {rows} × 512, two ways in turns; a third is refused: {refused}",
        "slow first calls are not counted, one slow call does not move the median, and wrong results get no time",
        f"{run.ratio('written out', 'one operator').median:.2f}× written out; alone {benchmark(written_out, x)!r}",
        run.plot(),
    )


SYSTEM = System(
    name="measuring",
    summary="one function timed, or several in turns, once their results agree",
    modules=("kernels.measure.benchmark", "kernels.measure.race", "kernels.measure.timing"),
    make=Measuring(benchmark, compare_functions),
    proof="work of known length, whose calls are counted; and functions that are known to be wrong",
    check=check,
    wrong={
        "the first calls count": Measuring(without_warmup, compare_functions),
        "the mean in place of the median": Measuring(mean, compare_functions),
        "results are compared by their shapes": Measuring(benchmark, shapes_alone),
        "each gets what the one before has left": Measuring(benchmark, one_after_the_other),
    },
    demo=demo,
    from_torch=("CUDA events",),
    claims=(
        Claim(
            name="timeit-minimum",
            text="the min() of the result is probably the only number you should be interested in",
            source="Python’s documentation, timeit.Timer.repeat",
            conditions="the time of the same code, repeated on a machine with other processes",
            verdict="partly",
            reason="the minimum is the steadiest of three, and the median comes near it, beside busy programs too, while the "
            "mean does not; but what a call usually takes, only the median says",
            evidence="measured",
            experiment=steadiness,
            devices=("cpu",),
        ),
        _not_here("demo-2.2x", "the demo’s 2.2×", "the code of the demo times an update step that is empty"),
        _not_here("demo-3.7x", "the demo’s 3.7×", "its baseline and its sizes are not given"),
    ),
)
