"""The inputs that layer norm and GELU are checked and timed on."""

from typing import Any

from kernels.case import Case
from kernels.row_cases import EPS, WIDTHS, generator, row_cases, rows, strided, vector

CASES = row_cases(
    (*WIDTHS, 9_001),  # more than a block keeps in registers
    edge=EPS,
)


def make_inputs(case: Case, device: str) -> dict[str, Any]:
    """x with a mean and outliers, weight around 1, bias around 0."""
    random = generator(case, device)
    inputs = {"x": rows(case, random), "weight": strided(vector(case, random, mean=1), case)}
    return inputs | {"bias": vector(case, random, mean=0)} | dict(case.params)
