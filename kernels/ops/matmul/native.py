"""Level 1: a matrix product and its epilogue in PyTorch operators, the source of levels 2 and 3, and its signature."""

import math

import torch

from kernels import arguments
from kernels.signature import Signature

ACTIVATIONS = ("none", "gelu")


def matmul(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str = "none",
) -> torch.Tensor:
    """x @ w, plus bias, through GELU. PyTorch's product of half types is added up in float32 and rounded once."""
    y = torch.matmul(x, w)
    if bias is not None:
        y = y + bias
    if activation == "gelu":
        h = y if y.dtype == torch.float64 else y.float()
        y = (0.5 * h * (1 + torch.erf(h * 0.7071067811865476))).to(y.dtype)
    return y


def gelu_gradient(h: torch.Tensor) -> torch.Tensor:
    """d gelu(h) / dh = Φ(h) + h · φ(h), of the normal distribution and its density."""
    return 0.5 * (1 + torch.erf(h * math.sqrt(0.5))) + h * torch.exp(-0.5 * h * h) / math.sqrt(2 * math.pi)


def matmul_backward(dy, x, w, bias, activation):
    """The gradients (dx, dw, dbias or None). With h = x @ w + bias, which is computed again, and g = dy · activation'(h):

    dx = g @ wᵀ,    dw = xᵀ @ g,    dbias_j = sum_i g_ij
    """
    g = dy
    if activation == "gelu":
        h = matmul(x, w, bias)
        g = (dy * gelu_gradient(h if h.dtype == torch.float64 else h.float())).to(dy.dtype)
    rows, row_gradients = (x, g) if w.dim() > 2 else (x.flatten(0, -2), g.flatten(0, -2))
    wide = g if g.dtype == torch.float64 else g.float()
    return g @ w.mT, rows.mT @ row_gradients, None if bias is None else wide.flatten(0, -2).sum(0).to(bias.dtype)


def validate(x, w, bias, activation) -> None:
    arguments.floating("x", x, "(..., M, K)")
    if x.dim() < 2:
        raise ValueError(f"x: got shape {tuple(x.shape)}, expected (..., M, K)")
    arguments.floating("w", w, "(K, N) or (..., K, N)")
    if w.dim() < 2:
        raise ValueError(f"w: got shape {tuple(w.shape)}, expected (K, N) or (..., K, N)")
    batch = x.shape[:-2] if w.dim() > 2 else ()
    arguments.like("w", w, (*batch, x.shape[-1], w.shape[-1]), "x", x, why="K is the last dimension of x")
    arguments.like("bias", bias, w.shape[-1:], "x", x, why="the last dimension of w", optional=True)
    if activation not in ACTIVATIONS:
        raise ValueError(f"activation: got {activation!r}, expected one of {', '.join(map(repr, ACTIVATIONS))}")


SIGNATURE = Signature(
    '(Tensor x, Tensor w, Tensor? bias=None, str activation="none") -> Tensor y',
    validate=validate,
    shapes=lambda x, w, bias, activation: (((*x.shape[:-1], w.shape[-1]), x.dtype),),
    gradients=("x", "w", "bias"),
    save=("x", "w", "bias"),
    native_backward=matmul_backward,
)
