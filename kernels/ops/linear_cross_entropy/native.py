"""Level 1: a projection and its cross-entropy in PyTorch operators, with all logits in memory, and their signature."""

import torch
import torch.nn.functional as F

from kernels import arguments
from kernels.ops.cross_entropy.native import SIGNATURE as CROSS_ENTROPY
from kernels.ops.cross_entropy.native import cross_entropy, cross_entropy_backward
from kernels.signature import Signature


def linear_cross_entropy(
    x: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(loss, lse) of each row of the logits x · weightᵀ."""
    return cross_entropy(F.linear(x, weight), target, ignore_index, label_smoothing, z_loss)


def linear_cross_entropy_backward(dloss, x, weight, target, lse, ignore_index, label_smoothing, z_loss):
    """The gradients (dx, dweight), of dlogits, the gradient of the logits: dlogits · weight and dlogitsᵀ · x."""
    logits = F.linear(x, weight)
    dlogits = cross_entropy_backward(dloss, logits, target, lse, ignore_index, label_smoothing, z_loss)
    return dlogits @ weight, dlogits.reshape(-1, dlogits.shape[-1]).T @ x.reshape(-1, x.shape[-1])


def validate(x, weight, target, ignore_index, label_smoothing, z_loss) -> None:
    arguments.floating("x", x, "(..., K)")
    classes = weight.shape[0] if isinstance(weight, torch.Tensor) and weight.dim() == 2 else 1
    arguments.like("weight", weight, (classes, x.shape[-1]), "x", x, why="classes × the last dimension of x")
    if classes == 0:
        raise ValueError(f"weight: got shape {tuple(weight.shape)}, expected at least one row, one for each class")
    arguments.integers("target", target, x.shape[:-1], "x", x, why="the shape of x without its last dimension")
    arguments.below("target", target, classes, ignored=ignore_index)
    arguments.number("label_smoothing", label_smoothing, most=1)
    arguments.number("z_loss", z_loss)


SIGNATURE = Signature(
    "(Tensor x, Tensor weight, Tensor target, int ignore_index=-100, float label_smoothing=0.0, float z_loss=0.0)"
    " -> (Tensor loss, Tensor lse)",
    validate=validate,
    shapes=CROSS_ENTROPY.shapes,  # the rows of x are those of the logits
    gradients=("x", "weight"),
    save=("x", "weight", "target", "lse"),
    non_differentiable=("lse",),
    native_backward=linear_cross_entropy_backward,
)
