"""How fast a submission is on a GPU, beside PyTorch's own way of doing the same and beside our solution.

Our solutions are timed once on a GPU (`python -m book.recorders.lab_times`), PyTorch's way every time: what part of our
solution's speed a submission has is the quotient of two such ratios.
"""

from __future__ import annotations

import json

import torch

from kernels import machine, measure, worker
from kernels.cuda import RawModule
from kernels.grading.exercise import Exercise
from kernels.grading.judging.report import Verdict
from kernels.grading.labs import exercise
from kernels.grading.python import worker_side
from kernels.measure import results
from kernels.measure.race import Race

FOLDER = results.FOLDER / "labs"
LEAST = 1 / 3
NAME = "on a GPU, at least a third as fast as our solution"
_TRIES = 3  # others may use the GPU meanwhile


def race(name: str, text: str) -> Race | str:
    """Times of "yours" and "torch" at the bench sizes of the exercise, in turns; in a GPU's worker. Or why there are none.

    It judges nothing: `check` does. A submission whose values differ from PyTorch's gets no time.
    """
    if machine.here().device == "cpu":
        return "There is no GPU here, and the time of a kernel on a CPU says nothing about it."
    if exercise(name).bench is None:
        return f"{name} is not timed: nothing of PyTorch's does the same."
    try:
        return worker.run(_race, name, text, seconds=60, device="cuda")
    except (ArithmeticError, worker.WorkerError) as error:
        return f"No time: {error}"


def speed_fraction(name: str, raced: Race) -> float | None:
    """What part of our solution's speed a submission has; None on a GPU that our solution was not timed on."""
    path = FOLDER / results.file_name(machine.here().gpu)
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    ours = next((row for row in rows if row["exercise"] == name), None)
    yours = raced.times["torch"].median_ms / raced.times["yours"].median_ms
    return yours * ours["solution_ms"] / ours["torch_ms"] if ours else None


def verdict(asked: Exercise, text: str) -> Verdict:
    """Whether a submission that is right is fast, too."""
    reached = 0.0
    for _ in range(_TRIES):
        raced = race(asked.name, text) if machine.here().device == "cuda" else None
        if isinstance(raced, str):
            return Verdict(NAME, "broken", raced)
        now = speed_fraction(asked.name, raced) if raced else None
        if now is None:
            return Verdict(NAME, "open", "judged on a GPU that our solution was timed on")
        reached = max(reached, now)
        if reached >= LEAST:
            return Verdict(NAME, "held")
    longer = raced.times["yours"].median_ms / raced.times["torch"].median_ms
    return Verdict(
        NAME,
        "broken",
        f"{reached:.2g} of our solution's speed: it takes {longer:.3g} times as long as PyTorch's own operators, for "
        + ", ".join(f"{size} = {value}" for size, value in asked.bench.items()),
        "Where does the time go? Everything above holds, so it is none of that: look for work that the result does not "
        "need, and for threads or blocks that wait while others work.",
    )


def _race(name: str, text: str) -> Race:
    asked = exercise(name)
    call = asked.call(torch.Generator().manual_seed(0), **asked.bench)
    args = {key: arg.cuda() if isinstance(arg, torch.Tensor) else arg for key, arg in call.args.items()}
    outputs = [args[key] for key in call.expected if key in args]
    # What is transposed in place is transposed back: the clock may call one of them more often than the other.
    times = 2 if call.updated else 1
    theirs = {key: arg.clone() if key in call.updated else arg for key, arg in args.items()}
    if asked.language == "cuda":
        kernel = RawModule(code=asked.source(text)).get_function(name)

        def yours() -> object:
            for _ in range(times):
                kernel(call.grid, call.block, tuple(args.values()), call.shared_mem)
            return outputs
    else:
        function = worker_side.load(name, asked.source(text))

        def yours() -> object:
            return function(**args)

    def torchs() -> object:
        for _ in range(times):
            result = asked.peer(**theirs)
        return [result] if isinstance(result, torch.Tensor) and asked.language == "cuda" else result

    return measure.race({"yours": yours, "torch": torchs}, "cuda")
