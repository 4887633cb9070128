"""Deliberately wrong gradients behind a right output, whose names begin with "gradient-". The check must reject them too."""

import functools
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import torch
import triton
import triton.language as tl

from kernels.arguments import empty_contiguous
from kernels.cuda import Kernel, RawModule
from kernels.cuda.template import TYPES
from kernels.operation import Variant
from kernels.ops.layer_norm import cuda, cuda_backward, triton_backward
from kernels.ops.layer_norm.native import layer_norm, layer_norm_backward
from kernels.ops.layer_norm.registration import SIGNATURE
from kernels.registration import differentiable
from kernels.triton.column_sums import Partials
from kernels.triton.launch import launch
from kernels.unsupported import needs_compiler, needs_interpreter


def wrong_gradient(backward: Callable) -> Callable:
    """The right output with a wrong backward."""
    return differentiable(SIGNATURE, layer_norm, backward)


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


class LostPartial(Partials):
    def add_up(self):
        self.programs -= 1
        return super().add_up()


def lost_partial(dy, x, weight, bias, eps):
    with mock.patch.object(triton_backward, "Partials", LostPartial):
        return triton_backward.partials(dy, x, weight, bias, eps)


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


def edited_backward(old: str, new: str) -> Callable:
    """The CUDA rung `atomics` with one piece of its source replaced."""

    @functools.cache
    def kernel(path: Path, name: str, dtype: torch.dtype) -> Kernel:
        text = path.read_text()
        if old not in text:
            raise ValueError(f"old: {old!r} is not in {path.name} any more; this wrong kernel needs a new edit")
        expression = f"{name}<{TYPES[dtype]}>"
        options = cuda.MODULE.options
        return RawModule(code=text.replace(old, new), options=options, name_expressions=(expression,)).get_function(
            expression
        )

    def backward(*args):
        with mock.patch.object(cuda_backward, "kernel", kernel):
            return cuda_backward.atomics(*args)

    return wrong_gradient(backward)


VARIANTS: tuple[Variant, ...] = ()
for _level, _name, _idea, _backward in (
    (1, "gradient-unscaled", "forgets rstd in dx", unscaled),
    (1, "gradient-without-mean", "forgets the mean of g in dx", gradient_without_mean),
    (4, "gradient-lost-partial", "the second kernel forgets the last program", lost_partial),
    (4, "gradient-masked-lanes", "lanes beyond the row enter its sums", masked_lanes),
):
    _unsupported = {"unsupported": needs_interpreter} if _level == 4 else {}
    VARIANTS += (Variant(_level, _name, wrong_gradient(_backward), _idea, (Path(__file__),), **_unsupported),)
for _name, _idea, _old, _new in (
    (
        "gradient-overwritten",
        "assigns to dbias where it should add",
        "atomicAdd(&dbias[j], (float)dy[j])",
        "dbias[j] = (float)dy[j]",
    ),
    (
        "gradient-of-x",
        "multiplies by x, not by the normalised x, in dweight",
        "(float)dy[j] * n)",
        "(float)dy[j] * (float)x[j])",
    ),
):
    VARIANTS += (Variant(5, _name, edited_backward(_old, _new), _idea, (Path(__file__),), needs_compiler),)
