"""Deliberately wrong scans, which the check must reject. "gradient-…" have right outputs."""

from functools import partial

import torch

from kernels.ops.scan import cuda
from kernels.ops.scan.native import SIGNATURE, scan, scan_backward
from kernels.wrong import edited, variant


def exclusive(x):
    return torch.cat([torch.zeros_like(x[..., :1]), scan(x)[..., :-1]], -1)


def narrow(x):
    sums = x.clone(memory_format=torch.contiguous_format)
    for j in range(1, x.shape[-1]):
        sums[..., j] += sums[..., j - 1]
    return sums


def running_on(x):
    return scan(x.reshape(-1)).view(x.shape)


def backward_from_the_left(dy):
    return scan(dy)


def without_own(dy):
    return (scan_backward(dy).float() - dy.float()).to(dy.dtype)


wrong = partial(variant, SIGNATURE, __file__, forward=scan)
BLOCK, REVERSED = partial(cuda.scanned, False, False), partial(cuda.scanned, True, True)
NO_CARRY = edited(BLOCK, "carry += __shfl_sync(0xffffffff, sums_to_warp, 31);", "")
NO_WARPS = edited(BLOCK, "(warp > 0 ? earlier_warps : 0.0)", "0.0")
SUBTRACTED = edited(BLOCK, "if (lane == 0) before = 0.0;", "before = up_to - values.at[SIZE - 1];")
NO_PARTS = edited(REVERSED, "carry = block_sum(carry, carry_parts);", "carry = 0.0;")
VARIANTS = (
    wrong(1, "exclusive", "leaves out the element itself", forward=exclusive),
    wrong(1, "narrow-sums", "rounds every sum to the input's dtype", forward=narrow),
    wrong(1, "running-on", "goes on from the row before", forward=running_on),
    wrong(5, "no-carry", "every turn of the block begins at 0", forward=NO_CARRY),
    wrong(5, "no-warps", "every warp begins where the block does", forward=NO_WARPS),
    wrong(5, "subtracted", "takes a lane's own off: NaN behind an infinity", forward=SUBTRACTED),
    wrong(1, "gradient-from-the-left", "the gradient is the same scan", backward=backward_from_the_left),
    wrong(1, "gradient-exclusive", "leaves out the element's own gradient", backward=without_own),
    wrong(5, "gradient-no-parts", "every part of a row begins at 0", backward=NO_PARTS),
)
