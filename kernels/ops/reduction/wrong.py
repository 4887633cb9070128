"""Deliberately wrong reductions, which the check must reject. "gradient-…" have right outputs."""

from functools import partial

import torch

from kernels.ops.reduction import cuda
from kernels.ops.reduction.native import SIGNATURE, reduction, reduction_backward
from kernels.wrong import edited, variant


def without_nan(x, kind, dim):
    return reduction(x.nan_to_num(-torch.inf, torch.inf, -torch.inf) if kind == "max" else x, kind, dim)


def from_zero(x, kind, dim):
    y, index = reduction(x, kind, dim)
    return y.clamp(min=0) if kind == "max" else y, index


def last_of_equals(x, kind, dim):
    y, index = reduction(x, kind, dim)
    return y, x.shape[dim] - 1 - x.flip(dim).max(dim).indices if kind == "max" else index


def narrow(x, kind, dim):
    y, index = reduction(x, kind, dim)
    if kind != "max" and x.shape[dim]:
        sums = torch.zeros_like(y)
        for one in x.unbind(dim):
            sums = sums + one
        y = sums / x.shape[dim] if kind == "mean" else sums
    return y, index


def to_all_equals(dy, x, index, kind, dim):
    if kind != "max":
        return reduction_backward(dy, x, index, kind, dim)
    return torch.where(x == x.amax(dim, keepdim=True), dy.unsqueeze(dim), 0).to(x.dtype)


def undivided(dy, x, index, kind, dim):
    return reduction_backward(dy, x, index, "sum" if kind == "mean" else kind, dim)


wrong = partial(variant, SIGNATURE, __file__, forward=reduction)
FIRST_WARP = edited(cuda.lanes, "other < blockDim.y", "other < 1")
ANY_EQUAL = edited(cuda.lanes, "return one.at < other.at;", "return one.at > other.at;")
VARIANTS = (
    wrong(1, "without-nan", "passes over NaN for the largest", forward=without_nan),
    wrong(1, "from-zero", "begins at 0, not at -inf, for the largest", forward=from_zero),
    wrong(1, "last-of-equals", "of equals gives the last", forward=last_of_equals),
    wrong(1, "narrow-sums", "rounds every sum to the input's dtype", forward=narrow),
    wrong(5, "first-warp", "leaves out all warps but the first", forward=FIRST_WARP),
    wrong(5, "ties-by-lane", "of equals gives the last, in one thread and among several", forward=ANY_EQUAL),
    wrong(1, "gradient-to-all-equals", "each of several that are largest has the gradient", backward=to_all_equals),
    wrong(1, "gradient-undivided", "the gradient of a mean is that of a sum", backward=undivided),
)
