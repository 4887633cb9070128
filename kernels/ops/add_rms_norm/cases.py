"""The inputs that addition and RMS norm are checked and timed on."""

import math
from typing import Any

from kernels.case import few_rows
from kernels.hardware import REFERENCE_MULTIPROCESSORS
from kernels.operation import Case
from kernels.row_cases import EPS, WIDTHS, beside, each, generator, row_cases, rows, strided, vector

# The fewest rows of 32,768 that are not all there at once: see kernels.row_parts.
MANY = REFERENCE_MULTIPROCESSORS // 2 + 1
LONG = 16_384  # columns beyond which so many are not

# Of odd width and of even, more than 8,192 columns, and more than 16,384; at last few rows that are divided.
CASES = row_cases((*WIDTHS, 9_001, 9_008, 20_000), edge=(*EPS, *each((3, 20_001)), *each((2, 66_000))))


def make_inputs(case: Case, device: str) -> dict[str, Any]:
    random = generator(case, device)
    inputs = {"x": rows(case, random), "residual": beside(case, device)}
    return inputs | {"weight": strided(vector(case, random, mean=1), case)} | dict(case.params)


def few(case: Case, rows: int) -> Case:
    """The case with so many rows; where its rows are long and many, with as many as are not all there at once."""
    many = case.shape[-1] > LONG and math.prod(case.shape[:-1]) >= MANY
    return few_rows(case, max(rows, MANY) if many else rows)
