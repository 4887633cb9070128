"""The inputs that dropout and a residual are checked and timed on."""

from typing import Any

from kernels.operation import Case
from kernels.row_cases import beside, each, generator, row_cases, rows

SETTINGS = ({"p": 0.0}, {"p": 1.0}, {"p": 0.9, "seed": 2**62 + 7}, {"p": 0.5, "seed": 2**31})
CASES: dict[str, tuple[Case, ...]] = row_cases(
    edge=tuple(case for params in SETTINGS for case in each((4, 96), (3, 1_001), params=params))
) | {"huge": ()}  # which row an element is of decides on its mask: tests/test_residual_dropout.py has this case


def make_inputs(case: Case, device: str) -> dict[str, Any]:
    inputs = {"x": rows(case, generator(case, device)), "residual": beside(case, device)}
    return inputs | {"p": 0.25, "seed": 2**40 + 3} | dict(case.params)
