"""torch.compile without graph breaks, and once for all shapes: the given functions are right, and compile badly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch

from kernels.grading import properties
from kernels.grading.exercise import Call, Exercise, Property, Trial
from kernels.grading.properties import known_mistakes
from kernels.grading.properties.differences import described
from kernels.grading.python import devices, torch_compile

Function = Callable[[torch.Tensor], torch.Tensor]
Likes = Mapping[str, Callable[..., known_mistakes.Values]]


def _call(random: torch.Generator, x: torch.Tensor, exact: Function, baseline: Function, **numbers: float) -> Call:
    """A call of f(x, **numbers), which should be as `exact` is of float64, and may err as `baseline` does."""
    dy = torch.randn(exact(x).shape, generator=random)
    return Call(
        {"x": x, **numbers, "dy": dy},
        expected=_with_gradient(exact, x.double(), dy.double()),
        baseline=_with_gradient(baseline, x, dy),
    )


def _with_gradient(function: Function, x: torch.Tensor, dy: torch.Tensor) -> dict[str, torch.Tensor]:
    x = x.clone().requires_grad_()
    y = function(x)
    (dx,) = torch.autograd.grad(y, x, dy)
    return {"y": y.detach(), "dx": dx}


def _clip_rows(random: torch.Generator, M: int, N: int, limit: float) -> Call:
    scale = min(limit, 10.0)  # beyond it, all rows are shorter
    length = torch.rand(M, 1, generator=random) * 4 * scale
    length[:1], length[1:2] = 3 * scale, 0.5 * scale  # one of each kind, whatever the seed
    direction = torch.randn(M, N, generator=random)
    x = direction / direction.norm(dim=1, keepdim=True) * length
    if M > 3:
        x[2] = 0

    def exact(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([row * limit / row.norm() if row.norm() > limit else row for row in x])

    # Not torch.renorm, whose divisor is larger than the norm by 1e-7.
    return _call(random, x, exact, lambda x: x * _clipped(x, limit), limit=limit)


def _pooled(
    random: torch.Generator, M: int, N: int, step: int, transposed: bool = False, infinite: bool = False
) -> Call:
    """transposed: x lies in memory column by column. infinite: an element is, and so the mean of its group."""

    def means(x: torch.Tensor) -> torch.Tensor:
        return min((step + 1) / 8, 1.0) * x.reshape(M // 4, 4, N).mean(1)

    x = torch.randn(M, N, generator=random)
    if infinite:
        x[M // 2, N // 2] = torch.inf
    return _call(random, x.T.contiguous().T if transposed else x, means, means, step=step)


def _clipped(x: torch.Tensor, limit: float) -> torch.Tensor:
    return limit / x.norm(dim=1, keepdim=True).clamp(min=limit)


def _scaled_down(x: torch.Tensor, limit: float, dy: torch.Tensor) -> torch.Tensor:
    return _with_gradient(lambda x: x * (limit / (x.norm(dim=1, keepdim=True) + 1e-6)).clamp(max=1), x, dy)["dx"]


def _step_value(step: int) -> float:
    return min((step + 1) / 8, 1.0)


_NO_GRADIENT = {"0: nothing of it goes back to x, as behind detach()": lambda x, **_: {"dx": torch.zeros_like(x)}}
_CLIP_Y = {
    "columns in place of rows": lambda x, limit, **_: {"y": x * _clipped(x.T, limit).T},
    "a factor for every row, also for one that is short enough": lambda x, limit, **_: {
        "y": x * limit / x.norm(dim=1, keepdim=True)
    },
}
_CLIP_DX = _NO_GRADIENT | {
    "that of a divisor larger than the norm, by 1e-6 or so, which is much where norms are small": lambda x, limit, dy: {
        "dx": _scaled_down(x, limit, dy)
    },
    "the gradient of a product whose factor is constant: the norm depends on x, too, and is detached": lambda x, limit, dy: {
        "dx": dy * _clipped(x, limit)
    },
}
_POOLED_Y = {
    "the elements as memory has them: x need not be contiguous, and x.stride() says how it lies": lambda x, step, **_: {
        "y": _step_value(step) * x.as_strided(x.shape, (x.shape[1], 1)).unflatten(0, (-1, 4)).mean(1)
    },
    "groups of other rows: a group is four rows that follow each other": lambda x, step, **_: {
        "y": _step_value(step) * x.unflatten(0, (4, -1)).mean(0)
    },
    "the means, without a factor": lambda x, **_: {"y": x.unflatten(0, (-1, 4)).mean(1)},
    "sums in place of means": lambda x, step, **_: {"y": _step_value(step) * x.unflatten(0, (-1, 4)).sum(1)},
    "a factor that goes on rising after the eighth step": lambda x, step, **_: {
        "y": (step + 1) / 8 * x.unflatten(0, (-1, 4)).mean(1)
    },
    "a factor that is one step late": lambda x, step, **_: {
        "y": _step_value(step - 1) * x.unflatten(0, (-1, 4)).mean(1)
    },
}


# No one makes this call, and still the version has to be for it: sizes have no end that a text may lean on.
_SIZES = {"L['x'].size()[0]": 4_000_004, "L['x'].size()[1]": 1_000_003}


def _exercise(
    name: str,
    call: Callable[..., Call],
    cases: dict[str, dict],
    drawn: dict[str, dict[str, range]],
    y: tuple[str, str, Likes],
    dx: tuple[Property, ...],
    dx_likes: Likes,
    beyond: Mapping[str, float],
) -> Exercise:
    """y: what to call the property that it is right, its hint, and mistakes that are recognised by their values. dx:
    properties of the gradient, and dx_likes: mistakes in it. beyond: numbers of a call
    that no one makes, and that the compiled version has to serve."""
    right = partial(known_mistakes.right, cases=tuple(cases))
    return Exercise(
        name=name,
        language="torch",
        call=call,
        cases=cases,
        drawn=drawn,
        prelude="import torch",
        parameters=tuple({"x": 0, **next(iter(cases.values()))}.keys() - {"M", "N"}),
        observe=partial(torch_compile.with_gradient, beyond=_SIZES | beyond),
        modules=torch_compile.MODULES,
        seconds=60,
        properties=(
            properties.finishes(),
            devices.together(),
            right("y", name=y[0], hint=y[1], likes=y[2]),
            *dx,
            right("dx", name="the gradient is right", likes=dx_likes),
            torch_compile.no_break(
                hint="What does this line have to know before it can go on? Write it as a computation on all rows."
            ),
            torch_compile.only_torch_operators("everything is in the graph"),
            torch_compile.reads_no_value("the graph asks for no value"),
            torch_compile.compiled_once(
                "compiled once for all calls",
                hint="A loop over the rows, an index into a list and an if need the number itself, so it becomes a "
                "condition of this version.",
                but=("alone",),
            ),
        ),
    )


def _no_nan(name: str, hint: str) -> Property:
    """The gradient of x is a number everywhere."""

    def broken(trials: Sequence[Trial]) -> str | None:
        for trial in trials:
            if (blank := trial.outputs["dx"].isnan()).any():
                return f"{described('dx', blank, 'is', 'are')} NaN\n(with {trial.where})"
        return None

    return Property(name, broken, "right", hint)


EXERCISES = (
    _exercise(
        "clip_rows",
        _clip_rows,
        {
            "first": {"M": 4, "N": 6, "limit": 1.0},
            "tiny": {"M": 5, "N": 4, "limit": 1e-6},
            "other": {"M": 3, "N": 5, "limit": 2.5},
            "more": {"M": 7, "N": 6, "limit": 0.3},
            "huge": {"M": 6, "N": 8, "limit": 1e38},
            "again": {"M": 4, "N": 6, "limit": 1.0},
            "alone": {"M": 1, "N": 6, "limit": 1.0},
        },
        drawn={"more": {"M": range(4, 40), "N": range(2, 400)}},
        y=(
            "the rows are clipped",
            "A row longer than limit is multiplied by limit / norm, and any other row by 1.",
            _CLIP_Y,
        ),
        dx=(
            _no_nan(
                "the gradient of a row of zeros is not NaN",
                hint="In the backward, 0 times infinity is NaN, also in the branch that torch.where or clamp does not "
                "take. Keep the divisor away from 0: norms.clamp(min=limit).",
            ),
        ),
        dx_likes=_CLIP_DX,
        beyond={"L['limit']": 1e6},
    ),
    _exercise(
        "pooled",
        _pooled,
        {
            # As many rows as nothing else has of anything: Dynamo takes equal sizes of the first call for the same.
            "first": {"M": 16, "N": 6, "step": 2},
            "longer": {"M": 12, "N": 5, "step": 7},
            "late": {"M": 24, "N": 9, "step": 5},
            "shorter": {"M": 20, "N": 6, "step": 20},
            "begin": {"M": 8, "N": 3, "step": 0},
            "again": {"M": 16, "N": 6, "step": 2},
            "infinite": {"M": 28, "N": 7, "step": 3, "infinite": True},
            "alone": {"M": 4, "N": 6, "step": 6, "transposed": True},
        },
        drawn={
            "late": {"M": range(24, 400, 4), "N": range(2, 100)},
            "shorter": {"step": range(8, 5_000)},
            "begin": {"step": range(2)},
        },
        y=(
            "y holds the means, times the factor of the step",
            "The factor is (step + 1) / 8 for the first eight steps, and then stays 1.",
            _POOLED_Y,
        ),
        dx=(),
        dx_likes=_NO_GRADIENT,
        beyond={"L['step']": 10_000_019},
    ),
)
