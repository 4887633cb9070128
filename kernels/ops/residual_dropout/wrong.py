"""Deliberately wrong dropouts with a residual, which the check must reject. "gradient-…" have right outputs."""

from functools import partial

import torch

from kernels.ops.residual_dropout import cuda
from kernels.ops.residual_dropout.native import SIGNATURE, dropped, residual_dropout, residual_dropout_backward
from kernels.random import uniform
from kernels.wrong import edited, variant


def unscaled(x, residual, p, seed):
    return torch.where(dropped(torch.ones_like(x), p, seed) != 0, x + residual, residual)


def residual_too(x, residual, p, seed):
    return dropped(x.float() + residual.float(), p, seed).to(x.dtype)


def kept_with_p(x, residual, p, seed):
    return residual_dropout(x * ((1 - p) / max(p, 1e-3)), residual, 1 - p, seed)


def counter_each(x, residual, p, seed):
    kept = uniform(seed, torch.arange(x.numel(), device=x.device)).reshape(x.shape) >= p
    return (residual + torch.where(kept, x.float() / max(1 - p, 1e-30), 0.0)).to(x.dtype)


def rows_alike(x, residual, p, seed):
    mask = dropped(torch.ones_like(x.reshape(-1, x.shape[-1])[:1], dtype=torch.float32), p, seed)
    return (residual + x.float() * mask.reshape(x.shape[-1:])).to(x.dtype)


def redrawn(dy, p, seed):
    return residual_dropout_backward(dy, p, seed + 1)


def undropped(dy, p, seed):
    return dy / max(1 - p, 1e-30)


wrong = partial(variant, SIGNATURE, __file__, forward=residual_dropout)
LOW_WORD = edited(cuda.fours, "unsigned(seed >> 32)", "0u")
ONE_STRIDE = edited(cuda.fours, "row * residual_stride", "row * x_stride")
VARIANTS = (
    wrong(1, "unscaled", "does not divide what is kept by 1 - p", forward=unscaled),
    wrong(1, "residual-too", "drops the residual as well", forward=residual_too),
    wrong(1, "kept-with-p", "takes p for the probability to be kept", forward=kept_with_p),
    wrong(1, "counter-each", "takes the first number of a counter for each element", forward=counter_each),
    wrong(1, "rows-alike", "drops the same columns of every row", forward=rows_alike),
    wrong(5, "low-word", "forgets the upper half of the seed", forward=LOW_WORD),
    wrong(5, "one-stride", "takes the stride of x for the residual's", forward=ONE_STRIDE),
    wrong(1, "gradient-redrawn", "the gradient has another mask", backward=redrawn),
    wrong(1, "gradient-undropped", "the gradient of what was dropped is passed on", backward=undropped),
)
