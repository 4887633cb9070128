"""The inputs that dropout and a residual are checked and timed on."""

from dataclasses import replace
from typing import Any

from kernels.operation import Case
from kernels.row_cases import each, generator, row_cases, rows

# The residual never has the strides of an x that is not contiguous: a kernel must not take the one's for the other's.
LAYOUTS = {"contiguous": "contiguous", "rows": "contiguous", "transposed": "rows", "expanded": "rows", "sliced": "rows"}
SETTINGS = ({"p": 0.0}, {"p": 1.0}, {"p": 0.9, "seed": 2**62 + 7}, {"p": 0.5, "seed": 2**31})
CASES: dict[str, tuple[Case, ...]] = row_cases(
    edge=tuple(case for params in SETTINGS for case in each((4, 96), (3, 1_001), params=params))
) | {"huge": ()}  # which row an element is of decides on its mask: tests/test_residual_dropout.py has this case


def make_inputs(case: Case, device: str) -> dict[str, Any]:
    other = replace(case, seed=case.seed + 1_000, layout=LAYOUTS[case.layout])
    inputs = {"x": rows(case, generator(case, device)), "residual": rows(other, generator(other, device))}
    return inputs | {"p": 0.25, "seed": 2**40 + 3} | dict(case.params)
