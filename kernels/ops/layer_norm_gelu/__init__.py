"""Layer norm and GELU as one operation: the row is normalised, scaled, shifted and activated before it is written.

    h_ij = (x_ij - mean_i) / sqrt(variance_i + eps) · weight_j + bias_j      (see kernels.ops.layer_norm)
    y_ij = gelu(h_ij),    gelu(h) = h · Phi(h), Phi of the normal distribution

for the rows i of an M×N matrix. h is never rounded, at any level; the backward computes it again from x.
"""

from functools import partial

import torch
import torch.nn.functional as F

from kernels import levels
from kernels.operation import Cost, Operation
from kernels.ops.layer_norm_gelu import cuda, native, triton_backward, triton_forward, wrong
from kernels.ops.layer_norm_gelu.cases import CASES, make_inputs


@levels.documented
def layer_norm_gelu(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5, level: int | str | None = None
) -> torch.Tensor:
    """gelu(layer_norm(x)) over the last dimension of x; differentiable in x, weight and bias.

    Args:
        x: shape (..., N), float32, float16 or bfloat16 (levels 1 to 3 also float64), any strides.
        weight: shape (N,), dtype and device of x.
        bias: shape (N,), dtype and device of x.
        eps: added to the variance; at least 0.

    Returns:
        shape, dtype and device of x, contiguous at levels 4 and 5.
    """
    return OPERATION.defaults[levels.chosen(level, x)](x, weight, bias, eps)


def reference(x, weight, bias, eps=1e-5):
    """The definition, in float64."""
    centred = x.double() - x.double().mean(-1, keepdim=True)
    normalised = centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()
    return F.gelu(normalised * weight.double() + bias.double())


def torch_layer_norm_gelu(x, weight, bias, eps=1e-5):
    return F.gelu(F.layer_norm(x, x.shape[-1:], weight, bias, eps))


OPERATION = Operation(
    **levels.from_modules("layer_norm_gelu", native, (triton_forward.FORWARD, triton_backward.BACKWARD), cuda),
    reference=reference,
    **levels.against_torch(torch_layer_norm_gelu),
    make_inputs=make_inputs,
    wrong=wrong.VARIANTS,
    # x, weight and bias read once, y written once; 8 operations an element for the norm and 12 for GELU.
    cost=partial(Cost.rowwise, matrices=2, vectors=2, operations=20),
    # dy, x, weight and bias read once, dx, dweight and dbias written once; 16 for the norm, 18 for GELU and its norm.
    backward_cost=partial(Cost.rowwise, matrices=3, vectors=4, operations=34),
    cases=CASES,
)
