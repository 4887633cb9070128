"""Level 1: bias and GELU in PyTorch operators, from which levels 2 and 3 are derived, and their signature."""

import torch
import torch.nn.functional as F

from kernels import arguments
from kernels.activations import GELU, slope
from kernels.signature import Signature


def bias_gelu(x: torch.Tensor, bias: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """gelu(x + bias), computed in float32 (float64 for float64) and rounded once."""
    h = x + bias if x.dtype == torch.float64 else x.float() + bias.float()
    return F.gelu(h, approximate=approximate).to(x.dtype)


def bias_gelu_backward(dy, x, bias, approximate):
    """The gradients: dx = dy · gelu'(x + bias), and dbias_j = sum_i of dx_ij before it is rounded."""
    h = x + bias if x.dtype == torch.float64 else x.float() + bias.float()
    dx = dy * slope(h, GELU[approximate])
    return dx.to(x.dtype), dx.sum_to_size(bias.shape).to(bias.dtype)


def validate(x, bias, approximate) -> None:
    arguments.floating("x", x)
    arguments.like("bias", bias, x.shape[-1:], "x", x, why="the last dimension of x")
    arguments.choice("approximate", approximate, tuple(GELU))


SIGNATURE = Signature(
    "(Tensor x, Tensor bias, str approximate='none') -> Tensor y",
    validate=validate,
    gradients=("x", "bias"),
    save=("x", "bias"),
    native_backward=bias_gelu_backward,
)
