"""Level 1: RMS norm in PyTorch operators, from which levels 2 and 3 are derived, and its signature."""

import torch

from kernels import arguments
from kernels.signature import Signature


def rms_norm(x: torch.Tensor, weight: torch.Tensor | None = None, eps: float = 1e-6) -> torch.Tensor:
    """RMS norm over the last dimension of x, computed in float32 (float64 for float64) and rounded once."""
    wide = x if x.dtype == torch.float64 else x.float()
    y = wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + eps)
    if weight is not None:
        y = y * weight
    return y.to(x.dtype)


def rms_norm_backward(dy, x, weight, eps):
    """The gradients (dx, dweight). With n = x · rstd and g = dy · weight, for each row:

    dx = rstd · (g - n · mean(g · n)),    dweight_j = sum_i dy_ij · n_ij
    """
    wide = x if x.dtype == torch.float64 else x.float()
    rstd = torch.rsqrt((wide * wide).mean(-1, keepdim=True) + eps)
    n, dy = wide * rstd, dy.to(wide.dtype)
    g = dy if weight is None else dy * weight
    dx = (rstd * (g - n * (g * n).mean(-1, keepdim=True))).to(x.dtype)
    return dx, None if weight is None else (dy * n).sum_to_size(weight.shape).to(weight.dtype)


def validate(x, weight, eps) -> None:
    arguments.floating("x", x)
    arguments.like("weight", weight, x.shape[-1:], "x", x, why="the last dimension of x", optional=True)
    arguments.number("eps", eps)


SIGNATURE = Signature(
    "(Tensor x, Tensor? weight=None, float eps=1e-6) -> Tensor y",
    validate=validate,
    gradients=("x", "weight"),
    save=("x", "weight"),
    native_backward=rms_norm_backward,
)
