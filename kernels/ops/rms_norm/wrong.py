"""Deliberately wrong RMS norms, which the check must reject. "gradient-…" have right outputs."""

from functools import partial

import torch

from kernels.ops.rms_norm import cuda, triton_backward, triton_forward
from kernels.ops.rms_norm.native import SIGNATURE, rms_norm, rms_norm_backward
from kernels.wrong import edited, lost_partial, variant


def scaled(x, scale, weight):
    y = x.float() * scale
    return (y if weight is None else y * weight).to(x.dtype)


def centred(x, weight, eps):
    return rms_norm(x - x.mean(-1, keepdim=True), weight, eps)


def eps_outside(x, weight, eps):
    return scaled(x, 1 / (x.float().square().mean(-1, keepdim=True).sqrt() + eps), weight)


def narrow(x, weight, eps):
    y = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)
    return y if weight is None else y * weight


def norm_not_mean(x, weight, eps):
    return scaled(x, torch.rsqrt(x.float().square().sum(-1, keepdim=True) + eps), weight)


def constant_rstd(dy, x, weight, eps):
    _, dweight = rms_norm_backward(dy, x, weight, eps)
    rstd = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)
    return scaled(dy, rstd, weight), dweight


wrong = partial(variant, SIGNATURE, __file__, forward=rms_norm)
PADDED = edited(
    partial(triton_forward.run, triton_forward.by_rows), "tl.cast(N, tl.float32)", "tl.cast(BLOCK_N, tl.float32)"
)
LOST_PARTIAL = lost_partial(triton_backward.prefetch)
SUMS_X = edited(cuda.columns, "{0.0f, common.rstd}", "{0.0f, 1.0f}")
VARIANTS = (
    wrong(1, "centred", "subtracts the mean, as layer norm does", forward=centred),
    wrong(1, "eps-outside-root", "adds eps to the root, not under it", forward=eps_outside),
    wrong(1, "narrow-arithmetic", "computes in the input's dtype", forward=narrow),
    wrong(1, "norm-not-mean", "divides by the norm, not by the root of the mean", forward=norm_not_mean),
    wrong(4, "padded-mean", "divides the sum by the width of the block", forward=PADDED),
    wrong(
        5, "first-pack", "repeats the first pack of a thread", forward=edited(cuda.kept, "(row[k]), W", "(row[0]), W")
    ),
    wrong(1, "gradient-constant", "takes rstd for a constant", backward=constant_rstd),
    wrong(4, "gradient-lost-partial", "the second kernel forgets the last program", backward=LOST_PARTIAL),
    wrong(5, "gradient-of-x", "dweight is summed over x, not over its norm", backward=SUMS_X),
)
