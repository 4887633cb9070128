"""Random results, from a seed."""

import numpy as np
import torch

from kernels.random import uniform
from toys.toy import C_TYPES, cases, normal, run, toy


class Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, p, seed):
        ctx.p, ctx.seed = p, seed
        y = torch.empty_like(x)
        run(f"dropout<{C_TYPES[x.dtype]}>", x.numel(), x, y, np.float32(p), seed, x.numel())
        return y

    @staticmethod
    def backward(ctx, dy):
        return Dropout.apply(dy.contiguous(), ctx.p, ctx.seed), None, None


def dropout(x, p, seed):
    kept = uniform(seed, torch.arange(x.numel(), device=x.device)).reshape(x.shape) >= p
    return torch.where(kept, x / (1 - p), torch.zeros_like(x))


def redrawn(x, p, seed):
    """The gradient of another seed's."""
    other = dropout(x, p, seed + 1)
    return other + (dropout(x, p, seed) - other).detach()


DROPOUT = toy(
    "dropout",
    dropout,
    dropout,
    lambda case, device: {"x": normal(case, case.shape, device=device), **case.params},
    dropout,
    Dropout.apply,
    wrong=redrawn,
    gradients=("x",),
    cases=cases((1, 1), (7, 37), (0, 5), (16, 256), params={"p": 0.25, "seed": 2**40 + 3}),
)
