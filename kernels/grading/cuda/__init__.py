"""Runs submissions in CUDA C: traced by the lens, and on a GPU where there is one."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from kernels import lens, worker
from kernels.cuda import CompileError, Kernel, LaunchError, RawModule
from kernels.cuda.isolated import isolated
from kernels.cuda.parameters import declared
from kernels.cuda.source import kernels_in
from kernels.grading.cuda import apart
from kernels.grading.cuda.forbidden import violation
from kernels.grading.exercise import Call, Exercise, Trial
from kernels.grading.naming import as_asked
from kernels.lens.cuda import instrumented, resources

_NVRTC = "cuda.bindings.nvrtc"
_FAILURES = (CompileError, LaunchError, TypeError, ValueError, worker.WorkerError)


def refusal(exercise: Exercise, text: str) -> tuple[str, str] | None:
    """What is the matter with a text that cannot be tried, and in whose words. Compiled as the lens does, which keeps it, and
    for a GPU."""
    if said := violation(exercise.source(text)):
        return "is not allowed", said
    worker.prepare(_NVRTC)
    try:
        worker.run(_compile, _kernel(exercise, text), seconds=60, device="cpu")
    except (CompileError, worker.WorkerError) as error:
        said = str(error)
        if exercise.name not in kernels_in(text) and f"{exercise.name}.cu:" not in said:  # it names no line of the text
            said = f"there is no kernel {exercise.name}: keep the kernel's name, which the check asks for"
        return "does not compile", said
    return None


def run(
    exercise: Exercise, text: str, trials: Sequence[Trial], seed: int, say: Callable[[str], object] = lambda doing: None
) -> list[Trial]:
    """Every call traced, but for those that are too large for it, up to the first that fails; with a GPU, also run there.

    A `seed` of 0: threads run by number.

    say: is called with the number of each case.
    """
    kernel = _kernel(exercise, text)
    done: list[Trial] = []
    for number, trial in enumerate(trials, 1):
        say(f"case {number} of {len(trials)}")
        large = trial.case in exercise.unwatched
        done.append(_plain(exercise, kernel, trial, "cpu") if large else _traced(exercise, kernel, trial, seed))
        if done[-1].error:
            return done  # so that an endless loop is waited for once
    if torch.cuda.is_available():
        say("on the GPU")
        with contextlib.redirect_stdout(io.StringIO()):  # the trace has printed the same
            done += [
                _plain(exercise, kernel, replace(trial, on_gpu=True), "cuda")
                for trial in trials
                if not trial.call.strides
            ]
    return done


def _kernel(exercise: Exercise, text: str) -> Kernel:
    module = RawModule(code=exercise.source(text), path=f"{exercise.name}.cu")
    return module.get_function(exercise.name)


def _compile(kernel: Kernel) -> None:
    instrumented.load(kernel)
    with contextlib.suppress(ImportError):  # NVRTC is not installed. It refuses some of what a CPU's compiler takes.
        resources.compiled(kernel)


def _traced(exercise: Exercise, kernel: Kernel, trial: Trial, seed: int) -> Trial:
    call, args = trial.call, _copies(trial.call, "cpu")
    launch = (kernel, call.grid, call.block, tuple(args.values()), call.shared_mem)
    try:
        found = lens.trace(*launch, seed=seed or None, seconds=exercise.seconds)
    except _FAILURES as error:
        return replace(trial, error=str(error))
    return replace(_done(trial, args), error=found.error, traces=(_as_asked(found, list(args)),))


def _as_asked(found: lens.Trace, args: Sequence[str]) -> lens.Trace:
    """A trace whose arrays are named as the exercise names its arguments, by their places."""
    own = dict(enumerate(one.name if one else "" for one in declared(found.source, found.kernel)))
    # What the lens cannot name is "argument 0".
    names = {own.get(number) or f"argument {number}": name for number, name in enumerate(args)}
    return as_asked(found, names, args)


def _plain(exercise: Exercise, kernel: Kernel, trial: Trial, device: str) -> Trial:
    call, args = trial.call, _copies(trial.call, device)
    try:
        if call.strides:
            return _done(trial, apart.launch(kernel, call, exercise.seconds))
        isolated(kernel, call.grid, call.block, tuple(args.values()), call.shared_mem, seconds=exercise.seconds)
    except _FAILURES as error:
        return replace(trial, error=str(error))
    return _done(trial, args)


def _copies(call: Call, device: str) -> dict:
    return {
        name: arg.to(device, copy=True) if isinstance(arg, torch.Tensor) else arg for name, arg in call.args.items()
    }


def _done(trial: Trial, args: dict) -> Trial:
    outputs = {name: args[name].cpu() for name in trial.call.expected}
    return replace(trial, outputs=outputs, left=trial.call.inputs(args))
