"""A size that shapes an input and is not passed: fewer heads of keys than of queries."""

import torch

from toys.toy import C_TYPES, cases, normal, run, toy


class Grouped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k):
        ctx.save_for_backward(q, k)
        y = q.new_empty(q.shape[:-1])
        B, H, S, D = q.shape
        run(f"grouped_scores<{C_TYPES[q.dtype]}>", y.numel(), q, k, y, H, k.shape[1], S, D, y.numel())
        return y

    @staticmethod
    def backward(ctx, dy):
        with torch.enable_grad():
            q, k = (one.detach().requires_grad_() for one in ctx.saved_tensors)
            return torch.autograd.grad(grouped_scores(q, k), (q, k), dy)


def grouped_scores(q, k):
    """q: (B, H, S, D), k: (B, kv_heads, S, D) → the product of each query with the key of its position, (B, H, S)."""
    wide = (one if one.dtype == torch.float64 else one.float() for one in (q, k.repeat_interleave(*groups(q, k))))
    return torch.mul(*wide).sum(-1).to(q.dtype)


def groups(q, k):
    return q.shape[1] // k.shape[1], 1


def make_heads(case, device):
    B, H, S, D = case.shape
    q, k = normal(case, case.shape, (B, case.sizes["kv_heads"], S, D), device=device)
    return {"q": q, "k": k}


GROUPED = toy(
    "grouped_scores",
    grouped_scores,
    lambda q, k: torch.einsum("bkgsd,bksd->bkgs", q.unflatten(1, (k.shape[1], -1)), k).flatten(1, 2),
    make_heads,
    grouped_scores,
    Grouped.apply,
    wrong=lambda q, k: grouped_scores(q, k.roll(1, 1)),
    gradients=("q", "k"),
    cases=cases((1, 2, 1, 4), (2, 4, 3, 8), (0, 4, 3, 8), (2, 8, 16, 32), sizes={"kv_heads": 2}),
)
