"""The inputs that addition and RMS norm are checked and timed on."""

from typing import Any

from kernels.operation import Case
from kernels.row_cases import EPS, beside, generator, row_cases, rows, strided, vector

CASES = row_cases(edge=EPS)


def make_inputs(case: Case, device: str) -> dict[str, Any]:
    random = generator(case, device)
    inputs = {"x": rows(case, random), "residual": beside(case, device)}
    return inputs | {"weight": strided(vector(case, random, mean=1), case)} | dict(case.params)
