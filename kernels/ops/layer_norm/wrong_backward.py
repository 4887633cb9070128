"""Deliberately wrong gradients behind a right output, whose names begin with "gradient-". The check must reject them too."""

import functools
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import torch
import triton
import triton.language as tl

from kernels.cuda import Kernel, RawModule
from kernels.operation import Variant
from kernels.ops.layer_norm import cuda, cuda_backward, cuda_instances, triton_backward, triton_forward
from kernels.ops.layer_norm.native import layer_norm, layer_norm_backward
from kernels.ops.layer_norm.registration import differentiable
from kernels.ops.layer_norm.triton_column_sums import Partials


def wrong_gradient(backward: Callable) -> Callable:
    """The right output with a wrong backward."""
    return differentiable(layer_norm, backward)


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
def masked_lanes_gradient(dy, x, weight, inside, N, eps):
    """input_gradient without its tl.where: lanes beyond the row hold -mean."""
    centred = x - (tl.sum(x, 1) / N)[:, None]
    rstd = (1.0 / tl.sqrt(tl.sum(centred * centred, 1) / N + eps))[:, None]
    normalised = centred * rstd
    g = dy * weight
    mean_g = (tl.sum(g, 1) / N)[:, None]
    mean_gn = (tl.sum(g * normalised, 1) / N)[:, None]
    return rstd * (g - mean_g - normalised * mean_gn), normalised


@triton.jit
def masked_lanes_gradient_kernel(
    dy_ptr, x_ptr, weight_ptr, dx_ptr, dweight_ptr, dbias_ptr, dy_stride, x_stride, N, eps, BLOCK_N: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, BLOCK_N)[None, :]
    inside = columns < N
    dy = tl.load(dy_ptr + row * dy_stride + columns, mask=inside, other=0.0).to(tl.float32)
    x = tl.load(x_ptr + row * x_stride + columns, mask=inside, other=0.0).to(tl.float32)
    weight = 1.0
    if weight_ptr is not None:
        weight = tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
    dx, normalised = masked_lanes_gradient(dy, x, weight, inside, N, eps)
    tl.store(dx_ptr + row * N + columns, dx, mask=inside)
    if dweight_ptr is not None:
        tl.atomic_add(dweight_ptr + columns, dy * normalised, mask=inside)
    if dbias_ptr is not None:
        tl.atomic_add(dbias_ptr + columns, dy, mask=inside)


def masked_lanes_backward(dy, x, weight, bias, eps):
    with mock.patch.object(triton_backward, "atomics_kernel", masked_lanes_gradient_kernel):
        return triton_backward.atomics(dy, x, weight, bias, eps)


def edited_backward(old: str, new: str) -> Callable:
    """The CUDA rung `atomics` with one piece of its text replaced."""

    @functools.cache
    def kernel(file: str, name: str, dtype: torch.dtype) -> Kernel:
        text = (cuda_instances.HERE / file).read_text()
        if old not in text:
            raise ValueError(f"old: {old!r} is not in {file} any more; this wrong kernel needs a new edit")
        expression = f"{name}<{cuda_instances.TYPES[dtype]}>"
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
    (4, "gradient-masked-lanes", "lanes beyond the row enter its sums", masked_lanes_backward),
):
    _unsupported = {"unsupported": triton_forward.unsupported} if _level == 4 else {}
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
    VARIANTS += (Variant(5, _name, edited_backward(_old, _new), _idea, (Path(__file__),), cuda.unsupported),)
