"""Level 1: reductions in PyTorch operators, from which levels 2 and 3 are derived, and their signature."""

import torch

from kernels import arguments
from kernels.signature import Signature

KINDS = ("sum", "mean", "max")


def reduction(x: torch.Tensor, kind: str = "sum", dim: int = -1) -> tuple[torch.Tensor, torch.Tensor]:
    """(y, index), computed in float32 (float64 for float64)."""
    if kind == "max":
        y, index = torch.max(x, dim)
        return y, index
    wide = x if x.dtype == torch.float64 else x.float()
    y = wide.sum(dim) if kind == "sum" else wide.mean(dim)
    return y.to(x.dtype), torch.empty([0], dtype=torch.int64, device=x.device)


def reduction_backward(dy, x, index, kind, dim):
    """The gradient dx: dy everywhere, divided by how many there are for a mean; for a largest value, at its index alone."""
    dy = dy.unsqueeze(dim)
    if kind == "max":
        at = x.argmax(dim, keepdim=True) if index is None else index.unsqueeze(dim)
        return torch.zeros(x.shape, dtype=dy.dtype, device=dy.device).scatter(dim, at, dy)
    return (dy / x.shape[dim] if kind == "mean" else dy).expand(x.shape).to(x.dtype, copy=True)


def reduced_shape(shape, dim):
    """The shape without its first dimension, or without its last."""
    return tuple(shape[1:] if dim == 0 else shape[:-1])


def validate(x, kind, dim) -> None:
    arguments.floating("x", x)
    arguments.choice("kind", kind, KINDS)
    if isinstance(dim, bool) or dim not in (0, -1):
        raise ValueError(f"dim: got {dim!r}, expected 0 or -1")
    if kind == "max" and not x.shape[dim]:
        raise ValueError(f"x: got shape {tuple(x.shape)}, expected at least one element along dimension {dim}")


def shapes(x, kind, dim):
    """Of y and index."""
    shape = reduced_shape(x.shape, dim)
    return (shape, x.dtype), (shape if kind == "max" else (0,), torch.int64)


SIGNATURE = Signature(
    '(Tensor x, str kind="sum", int dim=-1) -> (Tensor y, Tensor index)',
    validate=validate,
    shapes=shapes,
    gradients=("x",),
    save=("x", "index"),
    non_differentiable=("index",),
    native_backward=reduction_backward,
)
