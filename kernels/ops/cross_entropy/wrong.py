"""Deliberately wrong cross-entropies, which the check must reject. "gradient-…" have right outputs."""

from functools import partial

import torch

from kernels.ops.cross_entropy import cuda
from kernels.ops.cross_entropy.native import SIGNATURE, cross_entropy, cross_entropy_backward
from kernels.wrong import edited, variant


def ignored_counts(x, target, ignore_index, *parameters):
    return cross_entropy(x, target.clamp(min=0), x.shape[-1], *parameters)


def narrow_lse(x, target, *parameters):
    loss, lse = cross_entropy(x, target, *parameters)
    return loss, lse.to(x.dtype).double()


def smoothed_over_others(x, target, ignore_index, label_smoothing, z_loss):
    N = max(x.shape[-1], 2)
    return cross_entropy(x, target, ignore_index, label_smoothing * (1 - 1 / N), z_loss)


def exponentials_alone(x, target, *parameters):
    loss, lse = cross_entropy(x, target, *parameters)
    return loss + x.float().exp().sum(-1).log() - lse.float(), lse


def ignored_has_gradient(dloss, x, target, lse, ignore_index, *parameters):
    at = target.masked_fill(target == ignore_index, 0)
    return cross_entropy_backward(dloss, x, at, lse, -100, *parameters)


def mean_gradient(dloss, x, target, *others):
    return cross_entropy_backward(torch.full_like(dloss, dloss.mean().item()), x, target, *others)


def without_z(dloss, x, target, lse, ignore_index, label_smoothing, z_loss):
    return cross_entropy_backward(dloss, x, target, lse, ignore_index, label_smoothing, 0.0)


wrong = partial(variant, SIGNATURE, __file__, forward=cross_entropy)
STALE = edited(cuda.online, "part.sum *= exp_for<T>(part.largest - largest);", "")
NEXT = edited(cuda.blocks, "row.target - j", "row.target + 1 - j")
VARIANTS = (
    wrong(1, "ignored-counts", "rows that are ignored have a loss", forward=ignored_counts),
    wrong(1, "narrow-lse", "keeps the LSE in the logits' dtype", forward=narrow_lse),
    wrong(1, "smoothed-over-others", "gives the target no share of the smoothing", forward=smoothed_over_others),
    wrong(1, "no-largest", "subtracts nothing, so exp overflows", forward=exponentials_alone),
    wrong(5, "stale-sum", "a larger logit does not scale the sum so far", forward=STALE),
    wrong(1, "gradient-of-ignored", "ignored rows have a gradient", backward=ignored_has_gradient),
    wrong(1, "gradient-mean", "every row has the mean of the incoming gradients", backward=mean_gradient),
    wrong(1, "gradient-without-z", "the gradient forgets the z-loss", backward=without_z),
    wrong(5, "gradient-next-column", "takes 1 from the column after the target's", backward=NEXT),
)
