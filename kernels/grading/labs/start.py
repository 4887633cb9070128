"""The first edit of the course: one line of a kernel that is there."""

from __future__ import annotations

import torch

from kernels.grading.drill import drill
from kernels.grading.exercise import Call


def _scale(random: torch.Generator, n: int) -> Call:
    x = torch.randn(n, generator=random)
    x[n // 2] = 0  # is an element, too
    return Call({"y": torch.empty(n), "x": x, "n": n}, {"y": 2 * x.double() + 1}, grid=(-(-n // 256),), block=(256,))


EXERCISES = (
    drill(
        "scale",
        _scale,
        {"the same": {"n": 1000}, "other": {"n": 256}},
        {"other": {"n": range(1, 1000)}},
        "y[i] is 2 x[i] + 1",
        {
            "2 x[i]: the + 1 is missing": lambda x, **_: {"y": 2 * x},
            "2 (x[i] + 1)": lambda x, **_: {"y": 2 * (x + 1)},
        },
        inside="There are more threads than elements: the guard, if (i < n), keeps the others out.",
        large={"n": 70_000},
    ),
)
