"""Level 1: addition and RMS norm in PyTorch operators, from which levels 2 and 3 are derived, and their signature."""

import torch

from kernels import arguments
from kernels.signature import Signature


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6
) -> tuple[torch.Tensor, torch.Tensor]:
    """(y, h), computed in float32 (float64 for float64); each is rounded once, and y knows nothing of h's rounding."""
    h = x + residual if x.dtype == torch.float64 else x.float() + residual.float()
    y = h * torch.rsqrt((h * h).mean(-1, keepdim=True) + eps) * weight
    return y.to(x.dtype), h.to(x.dtype)


def add_rms_norm_backward(dy, dh, h, weight, eps):
    """The gradients (dx, dresidual, dweight), the first two equal. With n = h · rstd and g = dy · weight, for each row:

    dx = dh + rstd · (g - n · mean(g · n)),    dweight_j = sum_i dy_ij · n_ij
    """
    h = h if h.dtype == torch.float64 else h.float()
    dy = dy.to(h.dtype)
    rstd = torch.rsqrt((h * h).mean(-1, keepdim=True) + eps)
    n, g = h * rstd, dy * weight
    dx = (dh + rstd * (g - n * (g * n).mean(-1, keepdim=True))).to(dh.dtype)
    return dx, dx, (dy * n).sum_to_size(weight.shape).to(weight.dtype)


def validate(x, residual, weight, eps) -> None:
    arguments.floating("x", x)
    arguments.like("residual", residual, x.shape, "x", x)
    arguments.like("weight", weight, x.shape[-1:], "x", x, why="the last dimension of x")
    arguments.number("eps", eps)


SIGNATURE = Signature(
    "(Tensor x, Tensor residual, Tensor weight, float eps=1e-6) -> (Tensor y, Tensor h)",
    validate=validate,
    gradients=("x", "residual", "weight"),
    save=("h", "weight"),
    native_backward=add_rms_norm_backward,
)
