"""The inputs that SwiGLU and GeGLU are checked and timed on."""

from typing import Any

from kernels.activations import NAMES
from kernels.case import Case
from kernels.row_cases import beside, each, generator, row_cases, rows

GATES = [{"activation": name} for name in NAMES[1:]]
CASES = row_cases(
    edge=(
        *(case for params in GATES for shape in ((4, 96), (3, 1001)) for case in each(shape, params=params)),
        *(case for params in GATES for case in each((3, 99), layout="rows", params=params)),
        *(case for params in GATES for case in each((4, 200), values="nonfinite", params=params)),
        *(case for params in GATES for case in each((4, 200), values="large", params=params)),
    )
)
CASES["bench"] = tuple(Case((16_384, 14_336), "bfloat16", params=params) for params in ({}, *GATES))


def make_inputs(case: Case, device: str) -> dict[str, Any]:
    """A gate with the values that the case names, and an up with realistic ones."""
    inputs = {"gate": rows(case, generator(case, device)), "up": beside(case, device, values="realistic")}
    return inputs | dict(case.params)
