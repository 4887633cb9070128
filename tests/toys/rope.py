"""An input that is updated in place, with a gradient."""

import torch

from kernels.case import Output
from kernels.layouts import lay_out
from toys.toy import C_TYPES, cases, normal, run, toy


class Rope(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cos, sin):
        ctx.save_for_backward(cos, sin)
        ctx.mark_dirty(x)
        run(f"rope<{C_TYPES[x.dtype]}>", x.numel() // 2, x, cos, sin, *x.shape[1:], x.numel() // 2)
        return x

    @staticmethod
    def backward(ctx, dy):
        cos, sin = ctx.saved_tensors
        return Rope.apply(dy.clone(memory_format=torch.contiguous_format), cos, -sin), None, None


def rotated(x, cos, sin):
    """x: (B, S, H, D); cos and sin: (S, D/2)."""
    wide = x if x.dtype == torch.float64 else x.float()
    one, other = wide.chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((one * cos - other * sin, other * cos + one * sin), -1).to(x.dtype)


def make_positions(case, device):
    _, S, _, D = case.shape
    angles = torch.arange(S, device=device)[:, None] / 100 ** (torch.arange(D // 2, device=device) / (D // 2))
    x = lay_out(normal(case, case.shape, device=device), case.layout)
    return {"x": x, "cos": angles.cos(), "sin": angles.sin()}


def in_place(fn):
    def update(x, cos, sin):
        x.copy_(fn(x, cos, sin))

    return update


ROPE = toy(
    "rope",
    rotated,
    rotated,
    make_positions,
    in_place(rotated),
    lambda x, cos, sin: Rope.apply(x, cos, sin),
    wrong=in_place(lambda x, cos, sin: rotated(x, cos, -sin)),
    gradients=("x",),
    outputs=(Output("x"),),
    updates=("x",),
    cases=cases((1, 1, 1, 2), (2, 5, 3, 6), (0, 5, 3, 6), (2, 16, 4, 32)),
)
