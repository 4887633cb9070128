"""The inputs that addition and RMS norm are checked and timed on."""

from dataclasses import replace
from typing import Any

from kernels.operation import Case
from kernels.row_cases import each, generator, row_cases, rows, strided, vector

# The residual never has the strides of an x that is not contiguous: a kernel must not take the one's for the other's.
LAYOUTS = {"contiguous": "contiguous", "rows": "contiguous", "transposed": "rows", "expanded": "rows", "sliced": "rows"}
CASES = row_cases(edge=(*each((4, 96), params={"eps": 0.1}), *each((3, 1000), params={"eps": 1e-2})))


def make_inputs(case: Case, device: str) -> dict[str, Any]:
    random, other = generator(case, device), replace(case, seed=case.seed + 1_000, layout=LAYOUTS[case.layout])
    inputs = {"x": rows(case, random), "residual": rows(other, generator(other, device))}
    return inputs | {"weight": strided(vector(case, random, mean=1), case)} | dict(case.params)
