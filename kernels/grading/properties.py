"""Properties that labs share. Each function makes a `Property`; `hint` is passed on to it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kernels import check
from kernels.grading.differences import described, mismatch, wrong_elements
from kernels.grading.exercise import Property, Trial


def stays_inside(name: str = "it stays inside its arrays", hint: str = "") -> Property:
    """No access outside of an array, and none that is misaligned."""
    return without("out of bounds", "misaligned access", name=name, hint=hint)


def without(*kinds: str, name: str, stage: str = "runs", hint: str = "") -> Property:
    """The lens found nothing of these kinds, such as "race" (see `kernels.lens.Finding`)."""

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in trials:
            for finding in (found for trace in trial.traces for found in trace.findings):
                if finding.kind in kinds:
                    return f"{finding}{_where(trial)}"
        return None

    return Property(name, broken, stage, hint)


def finishes(name: str = "it runs to its end", hint: str = "") -> Property:
    """No call stopped at an error, a limit of time or memory, or a barrier that not all threads reach."""

    def broken(trials: Sequence[Trial]) -> str | None:
        return next((f"{trial.error}{_where(trial)}" for trial in trials if trial.error), None)

    return Property(name, broken, "runs", hint)


def written(name: str, hint: str = "") -> Property:
    """Every element of every output was written (CUDA C)."""

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in trials:
            for output, values in trial.outputs.items():
                blank = values.isnan() if values.is_floating_point() else values == torch.iinfo(values.dtype).min
                blank &= ~trial.call.expected[output].isnan()
                if blank.numel() and blank.all():
                    return f"nothing was written to {output}: its elements are the NaN that they were before"
                if blank.any():
                    return f"{described(output, blank, 'was', 'were')} never written{_where(trial)}"
        return None

    return Property(name, broken, "writes", hint)


def right(*cases: str, name: str, exact: bool = False, hint: str = "") -> Property:
    """The outputs are as expected: by the rule of `kernels.check`, or to the bit if `exact`. cases: by default, all."""

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in trials:
            if cases and trial.case not in cases:
                continue
            for output in trial.call.expected:
                if wrong := _wrong(trial, output, exact):
                    return f"{wrong}{_where(trial)}"
        return None

    return Property(name, broken, "right", hint)


def _wrong(trial: Trial, output: str, exact: bool) -> str | None:
    got, expected, call = trial.outputs[output], trial.call.expected[output], trial.call
    dtype = next((of[output].dtype for of in (call.baseline, call.args) if output in of), expected.dtype)
    if got.shape != expected.shape or got.dtype != dtype:
        return f"{output} is {got.dtype} of shape {tuple(got.shape)}, expected {dtype} of shape {tuple(expected.shape)}"
    if exact or not dtype.is_floating_point:
        wrong = (got != expected) & ~(got.isnan() & expected.isnan())
        return mismatch(output, got, expected, wrong) if wrong.any() else None
    baseline = call.baseline.get(output, expected.to(dtype))
    _, failure = check.compare(got, expected, baseline, dtype)
    if failure is None:
        return None
    wrong = wrong_elements(got, expected, baseline)
    return mismatch(output, got, expected, wrong) if wrong.any() else f"{output}: {failure}"


def _where(trial: Trial) -> str:
    """The sizes of a trial, to go behind a message about it."""
    sizes = ", ".join(f"{name} = {value}" for name, value in trial.sizes.items())
    return f"\n(with {sizes}{', on the GPU' if trial.on_gpu else ''})"
