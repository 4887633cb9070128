"""Scan: the cumulative sum along the last dimension.

    y_ij = sum over k ≤ j of x_ik,    dx_ij = sum over k ≥ j of dy_ik

for the rows i of an M×N matrix. Each row is read and written once, in blocks that begin with the sum of those before (Blelloch
1990, "Prefix sums and their applications"); a few long rows are divided into parts, whose sums a kernel of their own makes
before. Additions come in a fixed order: the same bits every time.
"""

from functools import partial

import torch

from kernels import levels
from kernels.operation import Cost, Operation
from kernels.ops.scan import cuda, native, triton, wrong
from kernels.ops.scan.cases import CASES
from kernels.row_cases import x_alone


@levels.documented
def scan(x: torch.Tensor, level: int | str | None = None) -> torch.Tensor:
    """The cumulative sum of x along its last dimension, differentiable in x; rounded once, at levels 4 and 5 from float64.

    Args:
        x: shape (..., N), float32, float16 or bfloat16 (levels 1 to 3 also float64), any strides.

    Returns:
        a tensor of x's shape, dtype and device, contiguous at levels 4 and 5.
    """
    return OPERATION.defaults[levels.chosen(level, x)](x)


def reference(x):
    """The definition, in float64."""
    return x.double().cumsum(-1)


def torch_scan(x):
    return x.cumsum(-1)


OPERATION = Operation(
    **levels.from_modules("scan", native, triton, cuda),
    reference=reference,
    **levels.against_torch(torch_scan),
    make_inputs=x_alone,
    wrong=wrong.VARIANTS,
    # x read once and y written once; an addition an element. The backward is the same of dy and dx.
    cost=partial(Cost.rowwise, matrices=2, operations=1),
    backward_cost=partial(Cost.rowwise, matrices=2, operations=1),
    cases=CASES,
)
