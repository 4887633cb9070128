"""torch.compile without graph breaks, and once for all shapes: the given functions are right, and compile badly."""

from __future__ import annotations

import torch

from kernels.grading import compiled, lookalikes, properties
from kernels.grading.exercise import Call, Exercise


def _with_gradient(y: torch.Tensor, x: torch.Tensor, random: torch.Generator, **numbers: float) -> Call:
    """A call of f(x, **numbers), whose float64 result y was computed from x; dy is for the check to pass on."""
    dy = torch.randn(y.shape, generator=random)
    (dx,) = torch.autograd.grad(y, x, dy.double())
    plain = x.detach().float()
    return Call(
        {"x": plain, **numbers, "dy": dy},
        expected={"y": y.detach(), "dx": dx},
        baseline={"y": y.detach().float(), "dx": dx.float()},
    )


def _clip_rows(random: torch.Generator, M: int, N: int, limit: float) -> Call:
    length = torch.rand(M, 1, generator=random) * 4 * limit
    length[0], length[1] = 3 * limit, 0.5 * limit  # one of each kind, whatever the seed
    direction = torch.randn(M, N, generator=random)
    x = direction / direction.norm(dim=1, keepdim=True) * length
    if M > 3:
        x[2] = 0
    x = x.double().requires_grad_()
    norm = x.detach().norm(dim=1)
    long = [x[row] * limit / x[row].norm() if norm[row] > limit else x[row] for row in range(M)]
    return _with_gradient(torch.stack(long), x, random, limit=limit)


def _pooled(random: torch.Generator, M: int, N: int, step: int) -> Call:
    x = torch.randn(M, N, generator=random).double().requires_grad_()
    y = min((step + 1) / 8, 1.0) * x.reshape(M // 4, 4, N).mean(1)
    return _with_gradient(y, x, random, step=step)


EXERCISES = (
    Exercise(
        name="clip_rows",
        language="torch",
        call=_clip_rows,
        cases={
            "first": {"M": 4, "N": 6, "limit": 1.0},
            "other": {"M": 3, "N": 5, "limit": 2.5},
            "more": {"M": 7, "N": 6, "limit": 0.3},
        },
        prelude="import torch",
        observe=compiled.with_gradient,
        seconds=60,
        properties=(
            properties.finishes(),
            lookalikes.right(
                "y",
                cases=("first", "other", "more"),
                name="the rows are clipped",
                likes={},
                hint="A row longer than limit is multiplied by limit / norm, and any other row by 1.",
            ),
            lookalikes.right(
                "dx",
                cases=("first", "other", "more"),
                name="the gradient is right, of a row of zeros, too",
                likes={},
                hint="In the backward, 0 times infinity is NaN, also in the branch that torch.where or clamp does not "
                "take. Keep the divisor away from 0: norms.clamp(min=limit).",
            ),
            compiled.no_break(
                hint="What does this line want to know before it can go on? Write it as a computation on all rows.",
            ),
            compiled.of_operators("all of it is in the graph"),
            compiled.no_questions("the graph asks for no value"),
        ),
    ),
    Exercise(
        name="pooled",
        language="torch",
        call=_pooled,
        cases={
            "first": {"M": 8, "N": 6, "step": 2},
            "longer": {"M": 12, "N": 6, "step": 3},
            "late": {"M": 24, "N": 6, "step": 5},
            "shorter": {"M": 16, "N": 6, "step": 20},
            "again": {"M": 20, "N": 6, "step": 6},
        },
        prelude="import torch",
        observe=compiled.with_gradient,
        seconds=60,
        properties=(
            properties.finishes(),
            lookalikes.right(
                "y",
                cases=("first", "longer", "late", "shorter", "again"),
                name="y holds the means, times the factor of the step",
                likes={},
                hint="The factor is (step + 1) / 8 for the first eight steps, and then stays 1.",
            ),
            lookalikes.right(
                "dx",
                cases=("first", "longer", "late", "shorter", "again"),
                name="the gradient is right",
                likes={},
            ),
            compiled.no_break(),
            compiled.of_operators("all of it is in the graph"),
            compiled.no_questions("the graph asks for no value"),
            compiled.once(
                name="compiled once for all shapes and steps",
                hint="A loop over range(x.shape[0]), an index into a list and an if need the number itself, so it becomes "
                "a condition of this version.",
            ),
        ),
    ),
)
