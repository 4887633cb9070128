"""Deliberately wrong additions with RMS norm, which the check must reject. "gradient-…" have right outputs."""

import functools
from pathlib import Path
from unittest import mock

import torch

from kernels.cuda import RawModule
from kernels.cuda.template import TYPES
from kernels.operation import Variant
from kernels.ops.add_rms_norm import cuda, triton_backward
from kernels.ops.add_rms_norm.native import SIGNATURE, add_rms_norm, add_rms_norm_backward
from kernels.registration import differentiable
from kernels.triton.column_sums import Partials
from kernels.unsupported import needs_compiler, needs_interpreter, never


def narrow(x, residual, weight, eps):
    h = x + residual
    return h * torch.rsqrt((h * h).mean(-1, keepdim=True) + eps) * weight, h


def eps_outside(x, residual, weight, eps):
    h = x.float() + residual.float()
    return (h / (h.square().mean(-1, keepdim=True).sqrt() + eps) * weight).to(x.dtype), h.to(x.dtype)


def residual_from_h_alone(dy, dh, h, weight, eps):
    dx, _, dweight = add_rms_norm_backward(dy, dh, h, weight, eps)
    return dx, dh.clone(), dweight


class LostPartial(Partials):
    def add_up(self):
        self.programs -= 1
        return super().add_up()


def lost_partial(*args):
    with mock.patch.object(triton_backward, "Partials", LostPartial):
        return triton_backward.columns(*args)


def edited(rung, old, new):
    """A rung of level 5 with one piece of the source of its kernels replaced."""

    @functools.cache
    def kernel(path, name, dtype):
        text, expression = path.read_text(), f"{name}<{TYPES[dtype]}>"
        if name.startswith("add_rms_norm") and old not in text:
            raise ValueError(f"old: {old!r} is not in {path.name} any more; this wrong kernel needs a new edit")
        return RawModule(code=text.replace(old, new), path=path, name_expressions=(expression,)).get_function(
            expression
        )

    def run(*args):
        with mock.patch.object(cuda, "kernel", kernel):
            return rung(*args)

    return run


def wrong(level, name, idea, forward=add_rms_norm, backward=add_rms_norm_backward):
    unsupported = {4: needs_interpreter, 5: needs_compiler}.get(level, never)
    return Variant(level, name, differentiable(SIGNATURE, forward, backward), idea, (Path(__file__),), unsupported)


ONE_STRIDE = edited(cuda.warp, "blockIdx.x * residual_stride", "blockIdx.x * x_stride")
OF_H = edited(cuda.columns, "(float)h[i * h_stride + j] * rstds[i]", "(float)h[i * h_stride + j]")
VARIANTS = (
    wrong(1, "narrow-arithmetic", "computes in the input's dtype", narrow),
    wrong(1, "eps-outside-root", "adds eps to the root, not under it", eps_outside),
    wrong(1, "swapped", "returns h before y", lambda *args: add_rms_norm(*args)[::-1]),
    wrong(1, "old-residual", "returns the residual that came", lambda *args: (add_rms_norm(*args)[0], args[1].clone())),
    wrong(5, "one-stride", "takes the stride of x for the residual's", ONE_STRIDE),
    wrong(1, "gradient-residual", "the residual's gradient is h's alone", backward=residual_from_h_alone),
    wrong(4, "gradient-lost-partial", "the second kernel forgets the last program", backward=lost_partial),
    wrong(5, "gradient-of-h", "dweight is summed over h, not over its norm", backward=OF_H),
)
