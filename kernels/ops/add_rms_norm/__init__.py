"""A residual is added and the sum normalised by its root mean square, over the last dimension, as in transformers.

    h_ij = x_ij + residual_ij
    y_ij = h_ij / sqrt(1/N · sum_k h_ik² + eps) · weight_j

for the rows i of an M×N matrix. y is made from the h that has not been rounded, at every level: a compiler that joins
the two keeps h as float32 anyway, and the reference rounds nothing. Only the h that is returned, and saved for the
backward, is rounded.
"""

from functools import partial

import torch
import torch.nn.functional as F

from kernels import levels
from kernels.operation import Cost, Operation
from kernels.ops.add_rms_norm import cuda, native, triton, wrong
from kernels.ops.add_rms_norm.cases import CASES, few, make_inputs


@levels.documented
def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6, level: int | str | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """(y, h): h = x + residual, and y, its RMS norm times weight; both differentiable in x, residual and weight.

    Args:
        x: shape (..., N), float32, float16 or bfloat16 (levels 1 to 3 also float64), any strides.
        residual: shape, dtype and device of x, any strides.
        weight: shape (N,), dtype and device of x.
        eps: added to the mean square; at least 0.

    Returns:
        two tensors of x's shape, dtype and device, contiguous at levels 4 and 5.
    """
    return OPERATION.defaults[levels.chosen(level, x)](x, residual, weight, eps)


def reference(x, residual, weight, eps=1e-6):
    """The definition, in float64."""
    h = x.double() + residual.double()
    return h / (h.square().mean(-1, keepdim=True) + eps).sqrt() * weight.double(), h


def torch_add_rms_norm(x, residual, weight, eps=1e-6):
    h = x + residual
    return F.rms_norm(h, h.shape[-1:], weight, eps), h


OPERATION = Operation(
    **levels.from_modules("add_rms_norm", native, triton, cuda),
    reference=reference,
    **levels.against_torch(torch_add_rms_norm),
    make_inputs=make_inputs,
    wrong=wrong.VARIANTS,
    # x, residual and weight read once, y and h written once; 5 operations an element, as in the formula.
    cost=partial(Cost.rowwise, matrices=4, vectors=1, operations=5),
    # dy, dh, h and weight read once, dx, dresidual and dweight written once.
    backward_cost=partial(Cost.rowwise, matrices=5, vectors=2, operations=12),
    cases=CASES,
    few=few,
)
