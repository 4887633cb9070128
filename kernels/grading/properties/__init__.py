"""Properties that labs share. Each function makes a `Property`; `hint` is passed on to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from kernels.cuda.source import Line
from kernels.grading.exercise import Property, Trial
from kernels.grading.properties.differences import described, differing, mismatch
from kernels.tolerance import compare, wrong_elements


def stays_inside(hint: str | Mapping[str, str] = "") -> Property:
    """No access outside of an array, and none that is misaligned."""
    return without("out of bounds", "misaligned access", name="it stays inside its arrays", hint=hint)


_NEVER_WRITTEN = (
    "Which thread writes this element, for these sizes, and does it come there, or has it returned? What no thread writes "
    "holds anything at all. If one does write it, a barrier has to come between."
)


def ordered(hint: str) -> Property:
    """No race, and nothing is read that was not written. hint: for a race."""
    hints = {"uninitialised read": _NEVER_WRITTEN, "": hint}
    return without("race", "uninitialised read", name="no race, and no uninitialised read", hint=hints)


def without(*kinds: str, name: str, stage: str = "runs", hint: str | Mapping[str, str] = "") -> Property:
    """The lens found nothing of these kinds, such as "race" (see `kernels.lens.Finding`)."""

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in trials:
            for finding in (found for trace in trial.traces for found in trace.findings):
                if finding.kind in kinds:
                    return f"{finding}\n(with {trial.where})"
        return None

    return Property(name, broken, stage, hint)


def finishes(hint: str = "") -> Property:
    """No call stopped at an error, a limit of time or memory, or a barrier that not all threads reach."""

    def broken(trials: Sequence[Trial]) -> str | None:
        return next((f"{trial.error}\n(with {trial.where})" for trial in trials if trial.error), None)

    return Property("it runs to its end", broken, "runs", hint)


def written(name: str, hint: str = "") -> Property:
    """Every element of every output was written (CUDA C). Of a grid too large to run whole, the values say so."""

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in (one for one in trials if not one.call.ends_only):
            for output, values in trial.outputs.items():
                if values.shape != trial.call.expected[output].shape:
                    continue  # `right` says so
                blank = values.isnan() & ~trial.call.expected[output].isnan()
                if (before := trial.call.args.get(output)) is not None:
                    # To the bit: a NaN that the kernel has computed is another.
                    blank = _bits(values) == _bits(before)
                    blank &= before.isnan() if before.is_floating_point() else before == torch.iinfo(before.dtype).min
                    blank &= ~trial.call.expected[output].isnan()
                if blank.any() and (line := _read_first(trial, output)):
                    many = described(output, blank, "is", "are")
                    return (
                        f"{many} NaN: line {line} reads {output}, and what it holds before anything has written it was "
                        f"NaN\n(with {trial.where})"
                    )
                if blank.numel() and blank.all():
                    were = "the NaN that" if values.is_floating_point() else "what"
                    said = f"nothing was written to {output}: its elements are {were} they were before"
                    return said if trial is trials[0] else f"{said}{_kept(trial)}\n(with {trial.where})"
                if blank.any():
                    return f"{described(output, blank, 'was', 'were')} never written\n(with {trial.where})"
        return None

    return Property(name, broken, "writes", hint)


def _read_first(trial: Trial, output: str) -> Line | None:
    """The line that reads an output of floats, of a launch that also writes it: a sum with a NaN has that NaN's bits."""
    own = [one for one in trial.accesses if one.masked is None and output in one.names]
    if trial.outputs[output].is_floating_point() and any(one.kind != "load" for one in own):
        return next((one.line for one in own if one.kind != "store"), None)
    return None


def _bits(values: torch.Tensor) -> torch.Tensor:
    return values.view({1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[values.element_size()])


def inputs_unchanged(name: str = "its inputs do not change") -> Property:
    """No call changes an argument that is no output: judged before values, which others may take from it."""

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in trials:
            if message := next(filter(None, (_changed(trial, of) for of in trial.left)), None):
                return f"{message}\n(with {trial.where})"
        return None

    return Property(name, broken, "writes", "An output has memory of its own, such as torch.empty_like(x).")


def right(
    *cases: str, name: str, exact: bool = False, signed: bool = False, hint: str | Mapping[str, str] = ""
) -> Property:
    """The outputs are as expected: by the rule of `kernels.tolerance`, or each number is the same if `exact`. cases: by
    default, all. signed: of numbers that are only moved, so that −0 is another than 0.

    And the other arguments are as they were.
    """

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in (one for one in trials if not cases or one.case in cases):
            wrong = (_wrong(trial, output, exact, signed) for output in trial.call.expected)
            changed = (_changed(trial, name) for name in trial.left)
            if message := next(filter(None, (*wrong, *changed)), None):
                kept = "" if trial is trials[0] else _kept(trial)
                return f"{message}{kept}\n(with {trial.where})"
        return None

    return Property(name, broken, "right", hint)


def _wrong(trial: Trial, output: str, exact: bool, signed: bool) -> str | None:
    got, expected, call = trial.outputs[output], trial.call.expected[output], trial.call
    dtype = next((of[output].dtype for of in (call.baseline, call.args) if output in of), expected.dtype)
    if got.shape != expected.shape or got.dtype != dtype:
        return f"{output} is {got.dtype} of shape {tuple(got.shape)}, expected {dtype} of shape {tuple(expected.shape)}"
    if exact or not dtype.is_floating_point:
        wrong = differing(got, expected)
        if signed:
            wrong |= (got.signbit() != expected.signbit()) & ~expected.isnan()
        return mismatch(output, got, expected, wrong) if wrong.any() else None
    baseline = call.baseline.get(output, expected.to(dtype))
    _, failure = compare(got, expected, baseline, dtype)
    if failure is None:
        return None
    wrong = wrong_elements(got, expected, baseline)
    return mismatch(output, got, expected, wrong) if wrong.any() else f"{output}: {failure}"


def _kept(trial: Trial) -> str:
    """In CUDA C, what of a variable outside of the kernel may be the reason, in a call that is not the first."""
    known = {*trial.call.args, *trial.call.expected}
    reads = (one for one in trial.accesses if one.masked is None and one.space == "global" and one.kind != "store")
    own = next((one for one in reads if not known & set(one.names)), None)
    if own is None:
        return ""
    return f"\nline {own.line} reads {', '.join(own.names)}, which still holds what the launch before has left in it"


def _changed(trial: Trial, name: str) -> str | None:
    """Of an argument that the call was to read, by which lines it was changed, and where."""
    changed = differing(trial.left[name], trial.call.args[name])
    if not changed.any():
        return None
    lines = {one.line for one in trial.accesses if one.kind != "load" and name in one.names}
    by = f"line {', '.join(map(str, sorted(lines)))} writes {name}, which should only be read: " if lines else ""
    return f"{by}{described(name, changed, 'is', 'are')} not what was given"
