"""Deliberately wrong additions with RMS norm, which the check must reject. "gradient-…" have right outputs."""

from functools import partial

import torch

from kernels.ops.add_rms_norm import cuda, triton
from kernels.ops.add_rms_norm.native import SIGNATURE, add_rms_norm, add_rms_norm_backward
from kernels.wrong import edited, lost_partial, variant


def narrow(x, residual, weight, eps):
    h = x + residual
    return h * torch.rsqrt((h * h).mean(-1, keepdim=True) + eps) * weight, h


def eps_outside(x, residual, weight, eps):
    h = x.float() + residual.float()
    return (h / (h.square().mean(-1, keepdim=True).sqrt() + eps) * weight).to(x.dtype), h.to(x.dtype)


def residual_from_h_alone(dy, dh, h, weight, eps):
    dx, _, dweight = add_rms_norm_backward(dy, dh, h, weight, eps)
    return dx, dh.clone(), dweight


def odd_columns_of_dh(dy, dh, h, weight, eps):
    queued = cuda.fits_block(h, cuda.MATRICES) and ODD_COLUMNS(dy, dh, h, weight, eps)
    return queued or add_rms_norm_backward(dy, dh, h, weight, eps)


wrong = partial(variant, SIGNATURE, __file__, forward=add_rms_norm)
LOST_PARTIAL = lost_partial(triton.columns)
ONE_STRIDE = edited(cuda.warp, "blockIdx.x * residual_stride", "blockIdx.x * x_stride")
SUMS_H = edited(cuda.columns, "{0.0f, common.rstd}", "{0.0f, 1.0f}")
ODD_COLUMNS = edited(cuda.in_registers, "sum.x += dh.x;", "")
VARIANTS = (
    wrong(1, "narrow-arithmetic", "computes in the input's dtype", forward=narrow),
    wrong(1, "eps-outside-root", "adds eps to the root, not under it", forward=eps_outside),
    wrong(1, "swapped", "returns h before y", forward=lambda *args: add_rms_norm(*args)[::-1]),
    wrong(1, "old-residual", "returns the residual that came", forward=lambda *a: (add_rms_norm(*a)[0], a[1].clone())),
    wrong(5, "one-stride", "takes the stride of x for the residual's", forward=ONE_STRIDE),
    wrong(1, "gradient-residual", "the residual's gradient is h's alone", backward=residual_from_h_alone),
    wrong(4, "gradient-lost-partial", "the second kernel forgets the last program", backward=LOST_PARTIAL),
    wrong(5, "gradient-of-h", "dweight is summed over h, not over its norm", backward=SUMS_H),
    wrong(5, "gradient-half-of-dh", "adds the gradient of h in odd columns alone", backward=odd_columns_of_dh),
)
