"""Level 1: softmax in PyTorch operators, the readable one, from which levels 2 and 3 are derived, and its signature.

    y_ij = exp(x_ij - max_k x_ik) / sum_k exp(x_ik - max_k x_ik)

Every operator is a kernel of its own on a GPU, and every intermediate result travels through memory.
"""

from functools import partial

import torch

from kernels import arguments
from kernels.signature import Signature


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax over the last dimension of x, computed in float32 (float64 for float64) and rounded once."""
    if x.shape[-1] == 0:
        return x.clone()  # no elements, so none is the largest
    wide = x if x.dtype == torch.float64 else x.float()
    # What is subtracted does not change the result, so no gradient need flow through it.
    e = torch.exp(wide - wide.amax(-1, keepdim=True).detach())
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


def softmax_backward(dy: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The gradient dx of softmax, for the gradient dy of its output y: dx_ij = y_ij · (dy_ij - sum_k dy_ik y_ik)."""
    wide = y if y.dtype == torch.float64 else y.float()
    return (wide * (dy - (dy * wide).sum(-1, keepdim=True))).to(y.dtype)


validate = partial(arguments.floating, "x")


SIGNATURE = Signature(
    "(Tensor x) -> Tensor y",
    validate=validate,
    gradients=("x",),
    save=("y",),
    native_backward=softmax_backward,
)
