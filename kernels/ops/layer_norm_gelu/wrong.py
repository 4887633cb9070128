"""Deliberately wrong layer norms with GELU, which the check must reject. "gradient-…" have right outputs."""

from functools import partial

import torch
import torch.nn.functional as F

from kernels.ops.layer_norm.native import layer_norm, layer_norm_backward
from kernels.ops.layer_norm_gelu import cuda, triton_backward
from kernels.ops.layer_norm_gelu.native import SIGNATURE, layer_norm_gelu, layer_norm_gelu_backward
from kernels.wrong import edited, lost_partial, variant


def gelu_first(x, weight, bias, eps):
    return layer_norm(F.gelu(x.float()), weight, bias, eps).to(x.dtype)


def narrow(x, weight, bias, eps):
    centred = x - x.mean(-1, keepdim=True)
    return F.gelu(centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + eps) * weight + bias)


def by_tanh(x, weight, bias, eps):
    return F.gelu(layer_norm(x.float(), weight, bias, eps), approximate="tanh").to(x.dtype)


def bias_after(x, weight, bias, eps):
    return (F.gelu(layer_norm(x.float(), weight, None, eps)) + bias).to(x.dtype)


def norm_alone(dy, x, weight, bias, eps):
    return layer_norm_backward(dy, x, weight, bias, eps)


def bias_of_dy(dy, x, weight, bias, eps):
    dx, dweight, _ = layer_norm_gelu_backward(dy, x, weight, bias, eps)
    return dx, dweight, dy.float().sum_to_size(bias.shape).to(bias.dtype)


wrong = partial(variant, SIGNATURE, __file__, forward=layer_norm_gelu)
LOST_PARTIAL = lost_partial(triton_backward.prefetch)
WITHOUT_NORM = edited(cuda.columns, "sums.n.at[k] += dh * n;", "sums.n.at[k] += dh;")
NO_MEAN = edited(cuda.kept, "(values, mean)", "(values, 0.0f)")
VARIANTS = (
    wrong(1, "gelu-first", "norms what GELU gives", forward=gelu_first),
    wrong(1, "narrow-arithmetic", "computes in the input's dtype", forward=narrow),
    wrong(1, "tanh", "approximates GELU by tanh", forward=by_tanh),
    wrong(1, "bias-after", "adds the bias to the GELU", forward=bias_after),
    wrong(5, "squares-about-zero", "takes the mean of squares for the variance", forward=NO_MEAN),
    wrong(1, "gradient-of-norm", "forgets the slope of GELU", backward=norm_alone),
    wrong(1, "gradient-bias-of-dy", "dbias sums dy, not what came through GELU", backward=bias_of_dy),
    wrong(4, "gradient-lost-partial", "the second kernel forgets the last program", backward=LOST_PARTIAL),
    wrong(5, "gradient-without-norm", "dweight sums without the normalised x", backward=WITHOUT_NORM),
)
