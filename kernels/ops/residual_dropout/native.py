"""Level 1: dropout and a residual in PyTorch operators, from which levels 2 and 3 are derived, and their signature."""

import torch

from kernels import arguments
from kernels.random import uniform4
from kernels.signature import Signature


def dropped(x: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    """x with each element 0 with probability p, and else divided by 1 - p; in float32 (float64 for float64)."""
    count = x.numel()
    numbers = uniform4(seed, torch.arange((count + 3) // 4, device=x.device)).flatten()
    kept = numbers[:count].reshape(x.shape) >= p
    wide = x if x.dtype == torch.float64 else x.float()
    return torch.where(kept, wide / max(1 - p, 1e-30), torch.zeros_like(wide))  # of p = 1, nothing is kept


def residual_dropout(x: torch.Tensor, residual: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    """residual + dropout(x), rounded once."""
    return (residual + dropped(x, p, seed)).to(x.dtype)


def residual_dropout_backward(dy, p, seed):
    """The gradient dx: dropout, of the same mask, of the gradient dy. That of the residual is dy itself."""
    return dropped(dy, p, seed).to(dy.dtype)


def number_rules(p, seed) -> None:
    arguments.number("p", p, most=1)
    if isinstance(seed, bool) or not 0 <= seed < 2**63:
        raise ValueError(f"seed: got {seed}, expected 0 to 2**63 - 1")


def validate(x, residual, p, seed) -> None:
    arguments.floating("x", x)
    arguments.like("residual", residual, x.shape, "x", x)
    number_rules(p, seed)


def validate_backward(dy, p, seed) -> None:
    arguments.floating("dy", dy)
    arguments.for_kernels("dy", dy)
    number_rules(p, seed)


SIGNATURE = Signature(
    "(Tensor x, Tensor residual, float p, int seed) -> Tensor y",
    validate=validate,
    gradients=("x",),
    passes={"residual": "y"},
    native_backward=residual_dropout_backward,
    validate_backward=validate_backward,
)
