"""Wrong values that a well-known mistake leads to: the message says which."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch

from kernels.grading import properties
from kernels.grading.exercise import Property, Trial
from kernels.grading.properties.differences import described

LIKE = "It looks like "
Values = Mapping[str, torch.Tensor]


def right(
    *outputs: str,
    cases: Sequence[str],
    name: str,
    likes: Mapping[str, Callable[..., Values]],
    first: bool = False,
    hint: str | Mapping[str, str] = "",
) -> Property:
    """`properties.right` of some outputs in some cases.

    likes: mistakes, by how they are named in "it looks like …"; each a function of the call's arguments, in float64, that
    returns the wrong values by the names of the outputs.
    first: judged before the other values. Of elements that are NaN, it says why that may be.
    """
    plain = properties.right(name=name, hint=hint)

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in trials:
            for output in outputs if trial.case in cases else ():
                call = replace(trial.call, expected={output: trial.call.expected[output]})
                one = [replace(trial, call=call, outputs={output: trial.outputs[output]})]
                if first and (blank := trial.outputs[output].isnan()).any():
                    return (
                        f"{described(output, blank, 'is', 'are')} NaN: it was never written, or computed from something that "
                        f"was never written, such as a row of partial sums\n(with {trial.where})"
                    )
                if message := plain.broken(one):
                    mistake = _recognised(trial, output, likes) or _coarse(trial, output)
                    return f"{message}\n{LIKE}{mistake}." if mistake else message
        return None

    return replace(plain, broken=broken, stage="writes" if first else plain.stage)


def _recognised(trial: Trial, output: str, likes: Mapping[str, Callable[..., Values]]) -> str | None:
    got, expected = trial.outputs[output], trial.call.expected[output].double()
    args = {
        name: arg.double() if isinstance(arg, torch.Tensor) and arg.is_floating_point() else arg
        for name, arg in trial.call.args.items()
    }
    for mistake, values in likes.items():
        wrong = values(**args).get(output)
        if wrong is not None and _near(got, wrong) and not _near(got, expected):
            return mistake
    return None


def _coarse(trial: Trial, output: str) -> str | None:
    """Whether all values are right to three digits, and by what that may be."""
    got, expected = trial.outputs[output].double(), trial.call.expected[output].double()
    if got.shape != expected.shape or not trial.outputs[output].is_floating_point():
        return None
    of = 1e-3 * expected.nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt()
    if not torch.allclose(got, expected, rtol=1e-3, atol=float(of), equal_nan=True):
        return None
    return (
        "the right formula but for something small: a constant of few digits, a value in a smaller type, or a term that is "
        "left out or too much"
    )


def _near(got: torch.Tensor, values: torch.Tensor) -> bool:
    """Far closer than one formula is to another, and not as close as rounding: the order of a sum may differ."""
    if got.shape != values.shape or not got.is_floating_point():
        return False
    tolerance = torch.finfo(got.dtype).eps ** 0.5 / 4
    rms = values.nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt()
    return torch.allclose(got.double(), values, rtol=tolerance, atol=float(tolerance * rms), equal_nan=True)
