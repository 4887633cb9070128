"""Deliberately wrong layer norms. The check must reject every one of them: they test the test.

Each is a mistake that people make, and each passes a careless check: a loose tolerance, zero-mean inputs, widths that are
powers of two, contiguous tensors, an output that is never looked at.
"""

import functools
from collections.abc import Callable
from pathlib import Path

import torch
import triton
import triton.language as tl

from kernels.cuda import RawModule
from kernels.operation import Variant
from kernels.ops.layer_norm import cuda
from kernels.ops.layer_norm.native import layer_norm, layer_norm_backward
from kernels.triton.launch import launch
from kernels.unsupported import needs_compiler, needs_interpreter

VARIANTS: tuple[Variant, ...] = ()


def add(level: int, name: str, idea: str, fn: Callable, **fields: object) -> None:
    global VARIANTS
    VARIANTS += (Variant(level, name, fn, idea, (Path(__file__),), **fields),)


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

    class WithGradient(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight, bias, eps):
            ctx.save_for_backward(x, weight, bias)
            ctx.eps = eps
            return forward(x, weight, bias, eps)

        @staticmethod
        def backward(ctx, dy):
            return *layer_norm_backward(dy, *ctx.saved_tensors, ctx.eps), None

    return lambda x, weight=None, bias=None, eps=1e-5: WithGradient.apply(x, weight, bias, eps)


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
    """layer_norm.cu with one piece of its source replaced."""

    @functools.cache
    def kernels() -> dict:
        text = cuda.SOURCE.read_text()
        if old not in text:
            raise ValueError(f"old: {old!r} is not in {cuda.SOURCE.name} any more; this wrong kernel needs a new edit")
        names = tuple(cuda.NAMES.values())
        module = RawModule(code=text.replace(old, new), options=cuda.MODULE.options, name_expressions=names)
        return {dtype: module.get_function(name) for dtype, name in cuda.NAMES.items()}

    return right_gradient(lambda *args: cuda.launch(kernels(), *args))


add(1, "sample-variance", "divides by N - 1", sample_variance)
add(1, "eps-outside-root", "adds eps to the root, not under it", eps_outside_root)
add(1, "mean-of-squares", "subtracts the squared mean from the mean of squares, which cancels", mean_of_squares)
add(1, "narrow-arithmetic", "computes in the input's dtype", narrow_arithmetic)
add(1, "no-bias", "forgets the bias", no_bias)
add(1, "zeros", "gives zeros", zeros)
add(
    1,
    "gradient-constants",
    "right output, but its gradient takes mean and variance as constants",
    constant_statistics,
)
add(1, "strides-ignored", "reads memory as if x were contiguous", strides_ignored)
add(1, "last-row-unwritten", "never writes the last row", last_row_unwritten)
add(1, "nan-hidden", "replaces NaN and infinities", nan_hidden)
add(
    4,
    "masked-lanes",
    "adds the squares of the masked lanes, which hold -mean",
    right_gradient(masked_lanes),
    unsupported=needs_interpreter,
)


def needs_order(case, machine):
    """A race may go well on a GPU for years; on a CPU the check chooses the order of threads."""
    return "its race need not show on a GPU" if machine.device == "cuda" else needs_compiler(case, machine)


for _name, _idea, _old, _new in (
    ("last-column", "never writes the last column", "y[j] = (T)value", "if (j < N - 1) y[j] = (T)value"),
    ("half-a-sum", "ends the tree one step early", "half > 0", "half > 1"),
    (
        "row-overlap",
        "rows of the output overlap by one",
        "(long long)blockIdx.x * N",
        "(long long)blockIdx.x * (N - 1)",
    ),
    ("shifted-weight", "reads the weight of the next column", "weight[j]", "weight[(j + 1) % N]"),
):
    add(5, _name, _idea, edited(_old, _new), unsupported=needs_compiler)
add(
    5,
    "race",
    "adds a partial sum that another thread is changing",
    edited("threadIdx.x < half", "threadIdx.x <= half"),
    unsupported=needs_order,
)
