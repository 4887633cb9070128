"""Deliberately wrong layer norms. The check must reject every one of them: they test the test.

Each is a mistake that people make, and each passes a careless check: a loose tolerance, zero-mean inputs, widths that are
powers of two, contiguous tensors, an output that is never looked at.
"""

from collections.abc import Callable
from pathlib import Path

import torch
import triton
import triton.language as tl

from kernels import wrong
from kernels.operation import Variant
from kernels.ops.layer_norm import cuda, cuda_split
from kernels.ops.layer_norm.native import SIGNATURE, layer_norm, layer_norm_backward
from kernels.registration import differentiable
from kernels.row_parts import NARROWEST
from kernels.triton.launch import launch
from kernels.unsupported import needs_compiler, needs_interpreter


def affine(normalised: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, dtype: torch.dtype):
    y = normalised if weight is None else normalised * weight
    return (y if bias is None else y + bias).to(dtype)


def sample_variance(x, weight=None, bias=None, eps=1e-5):
    centred = x.float() - x.float().mean(-1, keepdim=True)
    variance = (centred * centred).sum(-1, keepdim=True) / (x.shape[-1] - 1)
    return affine(centred * torch.rsqrt(variance + eps), weight, bias, x.dtype)


def eps_outside_root(x, weight=None, bias=None, eps=1e-5):
    centred = x.float() - x.float().mean(-1, keepdim=True)
    return affine(centred / ((centred * centred).mean(-1, keepdim=True).sqrt() + eps), weight, bias, x.dtype)


def mean_of_squares(x, weight=None, bias=None, eps=1e-5):
    wide = x.float()
    mean = wide.mean(-1, keepdim=True)
    variance = (wide * wide).mean(-1, keepdim=True) - mean * mean
    return affine((wide - mean) * torch.rsqrt(variance + eps), weight, bias, x.dtype)


def narrow_arithmetic(x, weight=None, bias=None, eps=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    return affine(centred * torch.rsqrt((centred * centred).mean(-1, keepdim=True) + eps), weight, bias, x.dtype)


def no_bias(x, weight=None, bias=None, eps=1e-5):
    return layer_norm(x, weight, None if bias is None else 0 * bias, eps)


def zeros(x, weight=None, bias=None, eps=1e-5):
    return 0 * layer_norm(x, weight, bias, eps)


def constant_statistics(x, weight=None, bias=None, eps=1e-5):
    wide = x.float()
    mean = wide.detach().mean(-1, keepdim=True)
    variance = (wide.detach() - mean).square().mean(-1, keepdim=True)
    return affine((wide - mean) * torch.rsqrt(variance + eps), weight, bias, x.dtype)


def strides_ignored(x, weight=None, bias=None, eps=1e-5):
    packed = torch.empty(x.shape, dtype=x.dtype).stride()
    return layer_norm(x.as_strided(x.shape, packed), weight, bias, eps)


def last_row_unwritten(x, weight=None, bias=None, eps=1e-5):
    y = layer_norm(x, weight, bias, eps)
    return torch.cat([y[:-1], torch.empty_like(y[-1:])]) if y.dim() > 1 else y


def nan_hidden(x, weight=None, bias=None, eps=1e-5):
    return layer_norm(x, weight, bias, eps).nan_to_num()


def right_gradient(forward: Callable) -> Callable:
    """Give a wrong forward pass the right gradient, so that the check has to find the output."""
    return differentiable(SIGNATURE, forward, layer_norm_backward)


@triton.jit
def masked_lanes_kernel(x_ptr, y_ptr, N, eps, BLOCK_N: tl.constexpr):
    columns = tl.arange(0, BLOCK_N)
    x = tl.load(x_ptr + tl.program_id(0) * N + columns, mask=columns < N, other=0.0).to(tl.float32)
    centred = x - tl.sum(x) / N  # lanes beyond the row now hold -mean, and the next line adds their squares
    y = centred / tl.sqrt(tl.sum(centred * centred) / N + eps)
    tl.store(y_ptr + tl.program_id(0) * N + columns, y, mask=columns < N)


def masked_lanes(x, weight, bias, eps):
    x = x.contiguous()
    y = torch.empty_like(x)
    if y.numel():
        N = x.shape[-1]
        launch(masked_lanes_kernel, (x.numel() // N,), x, y, N, eps, BLOCK_N=triton.next_power_of_2(N))
    return affine(y, weight, bias, x.dtype)


def edited(old: str, new: str) -> Callable:
    """The CUDA rung `block` with one piece of its source replaced."""
    return right_gradient(wrong.edited(cuda.block, old, new))


def split(old: str, new: str) -> Callable:
    """The kernels of CUDA C that share a row among blocks, with one piece of their source replaced. Rows of one part alone, in
    which nothing is joined, are level 1's: what is rejected is the mistake, not how such rows are rounded."""
    wrong_one = wrong.edited(cuda_split.split, old, new)

    def run(x, weight, bias, eps):
        several = x.numel() and x.shape[-1] > NARROWEST
        return wrong_one(x, weight, bias, eps) if several else layer_norm(x, weight, bias, eps)

    return right_gradient(run)


SOURCE = (Path(__file__),)
RACE = edited("threadIdx.x < half", "threadIdx.x <= half && threadIdx.x + half < blockDim.x")
VARIANTS = (
    Variant(1, "sample-variance", sample_variance, "divides by N - 1", SOURCE),
    Variant(1, "eps-outside-root", eps_outside_root, "adds eps to the root, not under it", SOURCE),
    Variant(
        1,
        "mean-of-squares",
        mean_of_squares,
        "subtracts the squared mean from the mean of squares, which cancels",
        SOURCE,
    ),
    Variant(1, "narrow-arithmetic", narrow_arithmetic, "computes in the input's dtype", SOURCE),
    Variant(1, "no-bias", no_bias, "forgets the bias", SOURCE),
    Variant(1, "zeros", zeros, "gives zeros", SOURCE),
    Variant(
        1,
        "gradient-constants",
        constant_statistics,
        "right output, but its gradient takes mean and variance as constants",
        SOURCE,
    ),
    Variant(1, "strides-ignored", strides_ignored, "reads memory as if x were contiguous", SOURCE),
    Variant(1, "last-row-unwritten", last_row_unwritten, "never writes the last row", SOURCE),
    Variant(1, "nan-hidden", nan_hidden, "replaces NaN and infinities", SOURCE),
    Variant(
        4,
        "masked-lanes",
        right_gradient(masked_lanes),
        "adds the squares of the masked lanes, which hold -mean",
        SOURCE,
        needs_interpreter,
    ),
    *(
        Variant(5, name, edited(old, new), idea, SOURCE, needs_compiler)
        for name, idea, old, new in (
            ("last-column", "never writes the last column", "y[j] = (T)value", "if (j < N - 1) y[j] = (T)value"),
            ("half-a-sum", "ends the tree one step early", "half > 0", "half > 1"),
            (
                "row-overlap",
                "rows of the output overlap by one",
                "(long long)blockIdx.x * N",
                "(long long)blockIdx.x * (N - 1)",
            ),
            ("shifted-weight", "reads the weight of the next column", "weight[j]", "weight[(j + 1) % N]"),
        )
    ),
    *(
        Variant(5, name, split(old, new), idea, SOURCE, needs_compiler)
        for name, idea, old, new in (
            (
                "last-part-whole",
                "counts the last part of a row like the others",
                "columns_of(p, part_columns, N) * (parts[p].mean - first)",
                "part_columns * (parts[p].mean - first)",
            ),
            (
                "parts-apart",
                "adds up squared deviations from means of parts as if from the row's",
                "columns_of(p, columns.part_columns, N) * (part.mean - mean) * (part.mean - mean)",
                "0",
            ),
        )
    ),
    Variant(5, "race", RACE, "adds a partial sum that another thread is changing", SOURCE, wrong.needs_order),
)
