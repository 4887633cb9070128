"""Deliberately wrong gradients behind a right output, whose names begin with "gradient-". The check must reject them too."""

from functools import partial

import torch
import triton
import triton.language as tl

from kernels.arguments import empty_contiguous
from kernels.ops.layer_norm import cuda_backward, cuda_split, triton_backward, triton_backward_wide
from kernels.ops.layer_norm.native import SIGNATURE, layer_norm, layer_norm_backward
from kernels.triton.launch import launch
from kernels.wrong import edited, lost_partial, variant


def rstd_of(x, eps):
    centred = x.float() - x.float().mean(-1, keepdim=True)
    return torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)


def unscaled(dy, x, weight, bias, eps):
    dx, dweight, dbias = layer_norm_backward(dy, x, weight, bias, eps)
    return (dx.float() / rstd_of(x, eps)).to(x.dtype), dweight, dbias


def gradient_without_mean(dy, x, weight, bias, eps):
    dx, dweight, dbias = layer_norm_backward(dy, x, weight, bias, eps)
    g = dy.float() if weight is None else dy.float() * weight
    return (dx.float() + rstd_of(x, eps) * g.mean(-1, keepdim=True)).to(x.dtype), dweight, dbias


@triton.jit
def masked_lanes_kernel(g_ptr, x_ptr, dx_ptr, N, eps, BLOCK_N: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_N)[None, :]
    g = tl.load(g_ptr + row * N + columns, mask=columns < N, other=0.0)
    x = tl.load(x_ptr + row * N + columns, mask=columns < N, other=0.0).to(tl.float32)
    # It takes all lanes for lanes of the row: those beyond it then hold -mean.
    dx, _ = triton_backward.input_gradient(g, x, 1.0, columns >= 0, N, eps)
    tl.store(dx_ptr + row * N + columns, dx, mask=columns < N)


def masked_lanes(dy, x, weight, bias, eps):
    dx, dweight, dbias = layer_norm_backward(dy, x, weight, bias, eps)
    if dx.numel():
        N = x.shape[-1]
        g = (dy.float() if weight is None else dy.float() * weight).contiguous()
        dx = empty_contiguous(x)
        block = triton.next_power_of_2(N)
        launch(masked_lanes_kernel, (x.numel() // N,), g, x.contiguous(), dx, N, eps, BLOCK_N=block)
    return dx, dweight, dbias


def if_any(function):
    """A bare backward of matrices with an element, on others too."""
    return lambda dy, x, *more: function(dy, x, *more) if x.numel() else layer_norm_backward(dy, x, *more)


def queued(old, new):
    """The kernel of CUDA C that reads rows once, with one piece of its source replaced; rows that do not fit are level 1's."""
    wrong_one = edited(cuda_backward.queued, old, new)
    return lambda *args: wrong_one(*args) or layer_norm_backward(*args)


wrong = partial(variant, SIGNATURE, __file__, forward=layer_norm)
LOST_PARTIAL = lost_partial(triton_backward.partials)
OVERWRITTEN = edited(cuda_backward.atomics, "atomicAdd(&dbias[j], (float)dy[j])", "dbias[j] = (float)dy[j]")
SUMS_X = edited(cuda_backward.atomics, "(float)dy[j] * n)", "(float)dy[j] * (float)x[j])")
# Products with deviations from a part's mean are taken for those with deviations from the row's.
PARTS_APART = edited(if_any(triton_backward_wide.wide), "products + apart * sums", "products")
FIRST_PARTS = edited(if_any(cuda_split.split_backward), "p < count", "p < min(count, 32)")
NEIGHBOURS = queued("add(k, p, has(k, 2 * p), has(k, 2 * p + 1))", "add(k, p, true, true)")
WHOLE_WARP = queued("warp_sum<LANES>(g_sum", "warp_sum(g_sum")
VARIANTS = (
    wrong(1, "gradient-unscaled", "forgets rstd in dx", backward=unscaled),
    wrong(1, "gradient-without-mean", "forgets the mean of g in dx", backward=gradient_without_mean),
    wrong(4, "gradient-lost-partial", "the second kernel forgets the last program", backward=LOST_PARTIAL),
    wrong(4, "gradient-masked-lanes", "lanes beyond the row enter its sums", backward=masked_lanes),
    wrong(4, "gradient-parts-apart", "joins products as if all parts had one mean", backward=PARTS_APART),
    wrong(5, "gradient-first-parts", "joins no more parts than a warp has lanes", backward=FIRST_PARTS),
    wrong(5, "gradient-neighbours", "what a vector has of the next row enters the variance", backward=NEIGHBOURS),
    wrong(5, "gradient-whole-warp", "adds up g over all rows that share a warp", backward=WHOLE_WARP),
    wrong(5, "gradient-overwritten", "assigns to dbias where it should add", backward=OVERWRITTEN),
    wrong(5, "gradient-of-x", "multiplies by x, not by the normalised x, in dweight", backward=SUMS_X),
)
