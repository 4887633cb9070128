"""Deliberately wrong biases and GELUs, which the check must reject. "gradient-…" have right outputs."""

from functools import partial

import torch
import torch.nn.functional as F

from kernels.ops.bias_gelu import cuda, triton
from kernels.ops.bias_gelu.native import SIGNATURE, bias_gelu, bias_gelu_backward
from kernels.wrong import edited, lost_partial, variant


def narrow(x, bias, approximate):
    h = x + bias
    return h * 0.5 * (1 + torch.erf(h * 0.5**0.5)) if approximate == "none" else F.gelu(h, approximate=approximate)


def bias_after(x, bias, approximate):
    return (F.gelu(x.float(), approximate=approximate) + bias).to(x.dtype)


def by_sigmoid(x, bias, approximate):
    h = x.float() + bias
    return (h * torch.sigmoid(1.702 * h)).to(x.dtype)


def without_bell(dy, x, bias, approximate):
    dx = dy * 0.5 * (1 + torch.erf((x.float() + bias) * 0.5**0.5))
    return dx.to(x.dtype), dx.sum_to_size(bias.shape).to(bias.dtype)


def sums_dy(dy, x, bias, approximate):
    return bias_gelu_backward(dy, x, bias, approximate)[0], dy.sum_to_size(bias.shape)


wrong = partial(variant, SIGNATURE, __file__, forward=bias_gelu)
packs, backward = cuda.FORWARD[-1].fn, cuda.BACKWARD[-1].fn
VARIANTS = (
    wrong(1, "no-bias", "forgets the bias", forward=lambda x, bias, name: bias_gelu(x, 0 * bias, name)),
    wrong(1, "bias-after", "adds the bias to the GELU", forward=bias_after),
    wrong(1, "always-tanh", "approximates unasked", forward=lambda x, bias, name: bias_gelu(x, bias, "tanh")),
    wrong(1, "by-sigmoid", "the coarser approximation, x · sigmoid(1.702 x)", forward=by_sigmoid),
    wrong(1, "narrow-arithmetic", "computes in the input's dtype", forward=narrow),
    wrong(5, "one-row", "repeats the first of a thread's rows", forward=edited(packs, "widened(rows[r])", "widened(rows[0])")),
    wrong(1, "gradient-without-bell", "takes Phi for the whole slope", backward=without_bell),
    wrong(1, "gradient-of-dy", "dbias sums dy, not dx", backward=sums_dy),
    wrong(4, "gradient-lost-partial", "the second kernel forgets the last program", backward=lost_partial(triton.columns)),
    wrong(5, "gradient-lost-rows", "dbias of the block's first rows alone",
          backward=edited(backward, "above < blockDim.y", "above < 1")),
    wrong(5, "gradient-few-rows", "drops the rows of all warps but the first",
          backward=edited(backward, "below < blockDim.y", "below < 1")),
)  # fmt: skip
