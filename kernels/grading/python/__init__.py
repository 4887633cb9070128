"""Runs submissions in Python: Triton kernels with their launchers, and PyTorch code.

They run in a worker process, which is given the arguments of the calls and nothing of what is expected; what comes back are
tensors and what was observed. All calls of a round run in one process, so a text that keeps what it computed before is given
other values of the same shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch

from kernels import worker
from kernels.grading.exercise import Exercise, Trial
from kernels.grading.naming import as_asked
from kernels.grading.python import devices, triton_compile, worker_side
from kernels.grading.python.forbidden import violation
from kernels.grading.python.observers import called, launches
from kernels.lens import Trace


def refusal(exercise: Exercise, text: str) -> tuple[str, str] | None:
    """What is the matter with a text that cannot be tried, and in whose words. A worker loads it."""
    source = exercise.source(text)
    if said := violation(source, exercise.language, given=1):
        return "is not allowed", said
    try:
        worker.prepare(worker_side.__name__)
        said = worker.run(worker_side.load_error, exercise.name, source, seconds=exercise.seconds, device="cpu")
    except worker.WorkerError as error:
        said = f"while it was loaded, {error}"
    return ("cannot be loaded", said) if said else None


def run(
    exercise: Exercise, text: str, trials: Sequence[Trial], seed: int, say: Callable[[str], object] = lambda doing: None
) -> list[Trial]:
    """Every call, one after another in one process; Triton in its interpreter, and on a GPU where there is one.

    Without one, its kernels are compiled, at the values that stay: of these, a `seed` of 0. At these the function is also
    called on tensors of no elements, to see what is made on the CPU.

    Cases that are too large for the lens come alone. They run on the CPU, unobserved, where their tensors have the strides of
    the call.
    say: is called with what is done next.
    """
    say(f"running {len(trials)} cases")
    for module in exercise.modules:
        worker.prepare(module)
    large = any(trial.case in exercise.unwatched for trial in trials)
    observe = called if large else exercise.observe or {"triton": launches, "torch": called}[exercise.language]
    done = _done(trials, _run(exercise, text, trials, observe, "cpu"))
    if large or any(trial.error for trial in done):
        return done
    if seed == 0:
        done = devices.with_elsewhere(done, _run(exercise, text, trials, devices.elsewhere, "cpu"))
    if exercise.language != "triton":
        return done
    if torch.cuda.is_available():
        say("on the GPU")
        there = [replace(trial, on_gpu=True) for trial in trials]
        return done + _done(there, _run(exercise, text, there, called, "cuda"))
    if seed == 0:
        say("compiling for a GPU")
        return triton_compile.with_refusals(done, _run(exercise, text, trials, triton_compile.compiled, "compiler"))
    return done


def _run(exercise: Exercise, text: str, trials: Sequence[Trial], observe: Callable, device: str) -> list[tuple]:
    """What `worker_side.run` returns, also where the worker did not come to that."""
    on = "cuda" if device == "cuda" else "cpu"
    given = [
        {name: arg.to(on) if isinstance(arg, torch.Tensor) else arg for name, arg in trial.call.args.items()}
        for trial in trials
    ]
    if observe is devices.elsewhere and exercise.parameters:
        given = [{name: args[name] for name in exercise.parameters} for args in given]
    asked = (exercise.name, exercise.source(text), given, observe, [trial.call.strides for trial in trials])
    if device == "compiler":
        worker.prepare(worker_side.__name__, device)
    try:
        return worker.run(worker_side.run, *asked, seconds=exercise.seconds, device=device)
    except worker.WorkerError as error:
        return [(None, {}, {}, str(error))] * len(trials)


def _done(trials: Sequence[Trial], found: Sequence[tuple]) -> list[Trial]:
    return [_tried(trial, *one) for trial, one in zip(trials, found, strict=True)]


def _tried(trial: Trial, results: list | None, left: dict, facts: dict, error: str | None) -> Trial:
    names = list(trial.call.expected)
    if error is None and len(results) != len(names):
        error = f"it returned {len(results)} tensors, expected {len(names)}: {', '.join(names)}"
    outputs = {} if error else {name: result.cpu() for name, result in zip(names, results, strict=True)}
    left = trial.call.inputs(left)
    traces = tuple(_as_asked(trace, roles, trial) for trace, roles in facts.pop("traces", ()))
    return replace(trial, outputs=outputs, left=left, error=error, traces=traces, facts=facts)


def _as_asked(trace: Trace, roles: Mapping[str, str | int], trial: Trial) -> Trace:
    """A trace whose arrays are named as the exercise names its arguments and results (see `observers.launches`)."""
    results = list(trial.call.expected)
    names = {own: results[role] if isinstance(role, int) else role for own, role in roles.items()}
    return as_asked(trace, names, (*trial.call.args, *results))
