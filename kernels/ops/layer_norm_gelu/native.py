"""Level 1: layer norm and GELU in PyTorch operators, from which levels 2 and 3 are derived, and their signature."""

import torch
import torch.nn.functional as F

from kernels import arguments
from kernels.activations import slope
from kernels.ops.layer_norm.native import layer_norm, layer_norm_backward
from kernels.signature import Signature


def layer_norm_gelu(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    """gelu(layer_norm(x)), computed in float32 (float64 for float64) and rounded once."""
    wide = x if x.dtype == torch.float64 else x.float()
    return F.gelu(layer_norm(wide, weight, bias, eps)).to(x.dtype)


def layer_norm_gelu_backward(dy, x, weight, bias, eps):
    """The gradients (dx, dweight, dbias): those of layer norm for dy · gelu'(h) in place of dy, with h computed again."""
    wide = x if x.dtype == torch.float64 else x.float()
    h = layer_norm(wide, weight, bias, eps)
    dx, dweight, dbias = layer_norm_backward(dy * slope(h, "gelu"), wide, weight, bias, eps)
    return dx.to(x.dtype), dweight, dbias


def validate(x, weight, bias, eps) -> None:
    arguments.floating("x", x)
    for name, tensor in (("weight", weight), ("bias", bias)):
        arguments.like(name, tensor, x.shape[-1:], "x", x, why="the last dimension of x")
    arguments.number("eps", eps)


SIGNATURE = Signature(
    "(Tensor x, Tensor weight, Tensor bias, float eps=1e-5) -> Tensor y",
    validate=validate,
    gradients=("x", "weight", "bias"),
    save=("x", "weight", "bias"),
    native_backward=layer_norm_gelu_backward,
)
