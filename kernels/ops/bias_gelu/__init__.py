"""A bias is added and GELU taken, between the products of an MLP (Hendrycks and Gimpel 2016, "Gaussian error linear units").

    y_ij     = gelu(x_ij + bias_j),    gelu(h) = h · Phi(h), Phi of the normal distribution
    dx_ij    = dy_ij · gelu'(x_ij + bias_j)
    dbias_j  = sum_i dx_ij

for the rows i of an M×N matrix. The sum x + bias is never rounded, at any level: only y is.
"""

from functools import partial

import torch
import torch.nn.functional as F

from kernels import levels
from kernels.operation import Cost, Operation
from kernels.ops.bias_gelu import cuda, native, triton, wrong
from kernels.ops.bias_gelu.cases import CASES, make_inputs
from kernels.unsupported import gelu_of_infinity


@levels.documented
def bias_gelu(
    x: torch.Tensor, bias: torch.Tensor, approximate: str = "none", level: int | str | None = None
) -> torch.Tensor:
    """gelu(x + bias); differentiable in both.

    Args:
        x: shape (..., N), float32, float16 or bfloat16 (levels 1 to 3 also float64), any strides.
        bias: shape (N,), dtype and device of x.
        approximate: "none", or "tanh" for the approximation that `torch.nn.functional.gelu` calls so.

    Returns:
        shape, dtype and device of x, contiguous at levels 4 and 5.
    """
    return OPERATION.defaults[levels.chosen(level, x)](x, bias, approximate)


def reference(x, bias, approximate="none"):
    """The definition, in float64."""
    return F.gelu(x.double() + bias.double(), approximate=approximate)


def torch_bias_gelu(x, bias, approximate="none"):
    return F.gelu(x + bias, approximate=approximate)


OPERATION = Operation(
    **levels.excluding(gelu_of_infinity, levels.from_modules("bias_gelu", native, triton, cuda)),
    reference=reference,
    **levels.against_torch(torch_bias_gelu),
    make_inputs=make_inputs,
    wrong=wrong.VARIANTS,
    # x and bias read once, y written once; a sum, an error function of about 10 operations and two products an element.
    cost=partial(Cost.rowwise, matrices=2, vectors=1, operations=13),
    # dy, x and bias read once, dx and dbias written once.
    backward_cost=partial(Cost.rowwise, matrices=3, vectors=2, operations=18),
    cases=CASES,
)
