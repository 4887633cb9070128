"""A property of results in 16 bits: computed in float32, they are the right values rounded once, but for a few."""

from __future__ import annotations

from collections.abc import Sequence

from kernels.grading.exercise import Property, Trial
from kernels.grading.properties.differences import differing, mismatch

# Of the elements: an error of float32 decides where a value lies nearly between two numbers, which is one in thousands. A
# second rounding does in one of ten.
_FEW = 1 / 64


def rounded_once(output: str, *cases: str, name: str, few: float = _FEW, hint: str = "") -> Property:
    """Few elements are not the expected ones, rounded to the dtype. The bound of `kernels.tolerance` leaves room for a second
    rounding, which is no larger than the first. few: of all elements, more where float32 errors are larger."""

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in (one for one in trials if one.case in cases and one.outputs):
            got = trial.outputs[output]
            expected = trial.call.expected[output].to(got.dtype)
            if got.shape != expected.shape:
                continue  # `right` says so
            off = differing(got, expected)
            if off.sum() > max(few * off.numel(), 2):
                said = "more than float32 errors explain: something was rounded to 16 bits before"
                return f"{mismatch(output, got, expected, off)}\n{said}\n(with {trial.where})"
        return None

    return Property(name, broken, "costs", hint)  # of values that are wrong it would blame the rounding
