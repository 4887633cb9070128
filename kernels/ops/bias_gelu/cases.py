"""The inputs that bias and GELU are checked and timed on."""

from typing import Any

from kernels.case import Case
from kernels.row_cases import each, generator, row_cases, rows, strided, vector

TANH = {"approximate": "tanh"}
CASES = row_cases(
    edge=(
        *each((4, 96), (3, 1001), (70, 264), params=TANH),
        *each((3, 99), layout="rows", params=TANH),
        *each((50, 19), (33, 24)),  # all of whose rows a block asks for at once
        *each((530, 37)),  # odd rows that backwards join, and two that are left
        *each((2_201, 3), (2_200, 8)),  # more than are on a GPU at once: a thread has several
        *(case for values in ("nonfinite", "large") for case in each((4, 200), values=values, params=TANH)),
    )
)
CASES["bench"] = tuple(Case((16_384, 14_336), "bfloat16", params=params) for params in ({}, TANH))


def make_inputs(case: Case, device: str) -> dict[str, Any]:
    random = generator(case, device)
    return {"x": rows(case, random), "bias": strided(vector(case, random, mean=0.5), case)} | dict(case.params)
