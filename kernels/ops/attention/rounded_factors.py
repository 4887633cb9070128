"""Attention in half types as tensor cores compute it: float32 sums of products whose factors are rounded to the dtype.

Which of PyTorch's kernels runs, and whether it rounds the weights before they meet the values, depends on the GPU, the shapes
and the mask. A kernel that does must not be judged by one that does not.
"""

from typing import Any

import torch


class RoundedFactors(torch.autograd.Function):
    """y and the LSE of float32 q, k and v with one head of keys for each of queries. `visible`: Q×KV booleans."""

    @staticmethod
    def forward(ctx: Any, q, k, v, visible, scale: float, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        s = (q @ k.mT * scale).masked_fill(~visible, -torch.inf)
        largest = s.amax(-1, keepdim=True).clamp(min=torch.finfo(s.dtype).min)
        p = (s - largest).exp()
        total = p.sum(-1, keepdim=True)
        seen = total.masked_fill(total == 0, 1.0)
        y = p.to(dtype).float() @ v / seen
        ctx.save_for_backward(q, k, v, p / seen, y.to(dtype).float())
        ctx.scale, ctx.dtype = scale, dtype
        return y, (largest + total.log()).squeeze(-1)

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        q, k, v, p, y = ctx.saved_tensors
        delta = (dy * y).sum(-1, keepdim=True)
        ds = (p * (dy @ v.mT - delta)).to(ctx.dtype).float()
        return ds @ k * ctx.scale, ds.mT @ q * ctx.scale, p.to(ctx.dtype).float().mT @ dy, None, None, None
