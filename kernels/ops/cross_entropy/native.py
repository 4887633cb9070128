"""Level 1: cross-entropy in PyTorch operators, from which levels 2 and 3 are derived, and its signature."""

import torch

from kernels import arguments
from kernels.signature import Signature


def cross_entropy(
    x: torch.Tensor,
    target: torch.Tensor,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(loss, lse) of each row, computed in float32 (float64 for float64)."""
    ignored = target == ignore_index
    wide = x if x.dtype == torch.float64 else x.float()
    wide = wide.masked_fill(ignored.unsqueeze(-1), 0.0)  # before anything else: no NaN of an ignored row has a gradient
    # What is subtracted cancels, so no gradient need flow through it. The lowest finite number, since -inf - -inf is NaN.
    largest = wide.detach().amax(-1).clamp(min=-3.4028234663852886e38)
    away = wide - largest.unsqueeze(-1)
    log_sum = away.exp().sum(-1).log()
    at_target = away.gather(-1, target.masked_fill(ignored, 0).unsqueeze(-1)).squeeze(-1)
    loss = log_sum - (1 - label_smoothing) * at_target
    if label_smoothing > 0:
        loss = loss - label_smoothing * away.mean(-1)
    if z_loss > 0:
        loss = loss + z_loss * (largest + log_sum) ** 2
    lse = largest.double() + log_sum.detach().double()
    return loss.masked_fill(ignored, 0.0), lse.masked_fill(ignored, 0.0)


def cross_entropy_backward(dloss, x, target, lse, ignore_index, label_smoothing, z_loss):
    """The gradient dx, of each row i that is not ignored:

    dx_ij = dloss_i · (p_ij · (1 + 2 · z_loss · lse_i) - (1 - label_smoothing) · [j = target_i] - label_smoothing / N)
    """
    ignored = (target == ignore_index).unsqueeze(-1)
    wide = (x if x.dtype == torch.float64 else x.float()).masked_fill(ignored, 0.0)
    p = wide.softmax(-1)
    at = target.unsqueeze(-1).masked_fill(ignored, 0)
    wanted = torch.zeros_like(p).scatter(-1, at, 1 - label_smoothing) + label_smoothing / x.shape[-1]
    dx = dloss.unsqueeze(-1) * (p * (1 + 2 * z_loss * wide.logsumexp(-1, keepdim=True)) - wanted)
    return dx.masked_fill(ignored, 0.0).to(x.dtype)


def validate(x, target, ignore_index, label_smoothing, z_loss) -> None:
    arguments.floating("x", x)
    if x.shape[-1] == 0:
        raise ValueError(f"x: got shape {tuple(x.shape)}, expected at least one column, one for each class")
    arguments.integers("target", target, x.shape[:-1], "x", x, why="the shape of x without its last dimension")
    arguments.below("target", target, x.shape[-1], ignored=ignore_index)
    arguments.number("label_smoothing", label_smoothing, most=1)
    arguments.number("z_loss", z_loss)


SIGNATURE = Signature(
    "(Tensor x, Tensor target, int ignore_index=-100, float label_smoothing=0.0, float z_loss=0.0)"
    " -> (Tensor loss, Tensor lse)",
    validate=validate,
    shapes=lambda x, *_: ((x.shape[:-1], torch.float32), (x.shape[:-1], torch.float64)),
    gradients=("x",),
    save=("x", "target", "lse"),
    non_differentiable=("lse",),
    native_backward=cross_entropy_backward,
)
