"""Reduction: the sum, the mean or the largest of each row, or of each column.

    sum  y_i = sum_j x_ij      mean  y_i = 1/N · sum_j x_ij      max  y_i = max_j x_ij, index_i = the first j that has it

along the last dimension; along the first, of the columns. The largest of values with a NaN is the first NaN, as in PyTorch.
The gradient of a largest value goes to its index alone.
"""

import torch

from kernels import levels
from kernels.operation import Case, Cost, Operation
from kernels.ops.reduction import cuda, native, triton, wrong
from kernels.ops.reduction.cases import CASES
from kernels.ops.reduction.native import reduced_shape
from kernels.row_cases import x_alone


@levels.documented
def reduction(
    x: torch.Tensor, kind: str = "sum", dim: int = -1, level: int | str | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """(y, index): x without its last or its first dimension; y is differentiable in x.

    Args:
        x: shape (..., N) or (M, ...), float32, float16 or bfloat16 (levels 1 to 3 also float64), any strides.
        kind: "sum" and "mean", in float32 and rounded once, or "max", of whose places index says the first: argmax.
        dim: -1, over the last dimension, or 0, over the first.

    Returns:
        y in the dtype of x, and index, int64 of the same shape; without elements, shape (0,), for "sum" and "mean".

    Raises:
        TypeError, ValueError: naming the argument, before anything is launched; also for the largest of nothing.
    """
    return OPERATION.defaults[levels.chosen(level, x)](x, kind, dim)


def reference(x, kind="sum", dim=-1):
    """The definition, in float64."""
    return torch_reduction(x.double(), kind, dim)


def torch_reduction(x, kind="sum", dim=-1):
    if kind == "max":
        found = x.max(dim)
        return found.values, found.indices
    return getattr(x, kind)(dim), x.new_empty(0, dtype=torch.int64)


def cost(case: Case) -> Cost:
    """Bytes: x read once, y written once, and index. Operations: one an element."""
    elements, itemsize = torch.Size(case.shape).numel(), getattr(torch, case.dtype).itemsize
    results = torch.Size(reduced_shape(case.shape, case.params.get("dim", -1))).numel()
    return Cost(elements * itemsize + results * (itemsize + 8 * (case.params.get("kind") == "max")), elements)


OPERATION = Operation(
    **levels.from_modules("reduction", native, triton, cuda, index="int64"),
    reference=reference,
    **levels.against_torch(torch_reduction),
    make_inputs=x_alone,
    wrong=wrong.VARIANTS,
    cost=cost,
    backward_cost=cost,  # dx written in place of x read
    cases=CASES,
)
