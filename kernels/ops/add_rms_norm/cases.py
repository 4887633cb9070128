"""The inputs that addition and RMS norm are checked and timed on."""

from dataclasses import replace

import torch

from kernels.operation import Case
from kernels.ops.layer_norm import cases as layer_norm

# The residual never has the strides of an x that is not contiguous: a kernel must not take the one's for the other's.
LAYOUTS = {"contiguous": "contiguous", "rows": "contiguous", "transposed": "rows", "expanded": "rows", "sliced": "rows"}
CASES = {
    kind: tuple(case for case in found if not {"weight", "bias"} & set(case.params))
    for kind, found in layer_norm.CASES.items()
}


def make_inputs(case: Case, device: str) -> dict[str, torch.Tensor]:
    """x and weight as layer norm has them; the residual as x, of another seed and in another layout."""
    other = replace(case, seed=case.seed + 1_000, layout=LAYOUTS[case.layout])
    of_x, of_residual = (layer_norm.make_inputs(replace(one, params={}), device) for one in (case, other))
    return {"x": of_x["x"], "residual": of_residual["x"], "weight": of_x["weight"]} | dict(case.params)
