"""Level 1: layer norm in PyTorch operators, the readable one. Levels 2 and 3 are derived from it.

    mean_i     = 1/N · sum_j x_ij
    variance_i = 1/N · sum_j (x_ij - mean_i)²
    y_ij       = (x_ij - mean_i) / sqrt(variance_i + eps) · weight_j + bias_j

Every operator is a kernel of its own on a GPU, and every intermediate result travels through memory.
"""

import torch

from kernels.ops.layer_norm.arguments import validate
from kernels.signature import Signature

Gradients = tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]  # of x, weight and bias


def layer_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    """Layer norm over the last dimension of x, computed in float32 (float64 for float64) and rounded once."""
    wide = x if x.dtype == torch.float64 else x.float()
    centred = wide - wide.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True)
    y = centred * torch.rsqrt(variance + eps)
    if weight is not None:
        y = y * weight
    if bias is not None:
        y = y + bias
    return y.to(x.dtype)


def layer_norm_backward(
    dy: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    """The gradients (dx, dweight, dbias) of layer norm for the gradient dy of its output.

    With normalised rows n_ij = (x_ij - mean_i) · rstd_i and g_ij = dy_ij · weight_j:

        dx_ij     = rstd_i · (g_ij - 1/N · sum_k g_ik - n_ij · 1/N · sum_k g_ik n_ik)
        dweight_j = sum_i dy_ij · n_ij
        dbias_j   = sum_i dy_ij

    The row statistics are computed again from x, so the forward pass need not store them.
    """
    wide = x if x.dtype == torch.float64 else x.float()
    wide_dy = dy.to(wide.dtype)
    centred = wide - wide.mean(-1, keepdim=True)
    rstd = torch.rsqrt((centred * centred).mean(-1, keepdim=True) + eps)
    normalised = centred * rstd
    g = wide_dy if weight is None else wide_dy * weight
    dx = rstd * (g - g.mean(-1, keepdim=True) - normalised * (g * normalised).mean(-1, keepdim=True))
    dweight = None if weight is None else (wide_dy * normalised).sum_to_size(weight.shape).to(weight.dtype)
    dbias = None if bias is None else wide_dy.sum_to_size(bias.shape).to(bias.dtype)
    return dx.to(x.dtype), dweight, dbias


SIGNATURE = Signature(
    "(Tensor x, Tensor? weight=None, Tensor? bias=None, float eps=1e-5) -> Tensor y",
    validate=validate,
    gradients=("x", "weight", "bias"),
    save=("x", "weight", "bias"),
    native_backward=layer_norm_backward,
)
