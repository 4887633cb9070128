"""Level 1: a scan in PyTorch operators, from which levels 2 and 3 are derived, and its signature."""

from functools import partial

import torch

from kernels import arguments
from kernels.signature import Signature


def scan(x: torch.Tensor) -> torch.Tensor:
    """The cumulative sum along the last dimension, in float32 (float64 for float64)."""
    wide = x if x.dtype == torch.float64 else x.float()
    return wide.cumsum(-1).to(x.dtype)


def scan_backward(dy):
    """The gradient dx: the cumulative sum of dy from the end."""
    wide = dy if dy.dtype == torch.float64 else dy.float()
    return wide.flip(-1).cumsum(-1).flip(-1).to(dy.dtype)


validate = partial(arguments.floating, "x")


SIGNATURE = Signature(
    "(Tensor x) -> Tensor",
    validate=validate,
    gradients=("x",),
    native_backward=scan_backward,
)
