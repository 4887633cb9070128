"""The inputs that RMS norm is checked and timed on."""

from typing import Any

from kernels.case import Case
from kernels.row_cases import EPS, WIDTHS, each, generator, row_cases, rows, strided, vector

CASES = row_cases(
    (*WIDTHS, 9_001),  # more than a block keeps in registers
    edge=(*EPS, *each((4, 96), (3, 9_000), params={"weight": None})),
)


def make_inputs(case: Case, device: str) -> dict[str, Any]:
    """x with a mean and outliers, weight around 1; the case's params replace or join them."""
    random = generator(case, device)
    inputs = {"x": rows(case, random), "weight": strided(vector(case, random, mean=1), case)}
    return inputs | dict(case.params)
