"""Attention with a pattern: plainly, with gradients everywhere, and by torch's flex_attention."""

import math

import torch

from kernels.masks import flex
from kernels.masks.pattern import Pattern


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    pattern: Pattern,
    scale: float | None = None,
    method: str | None = None,
) -> torch.Tensor:
    """softmax(pattern(scale · q kᵀ)) v. A query that sees no key gets zeros, and no gradient.

    Args:
        q: (B, H, Q, D); k, v: (B, H', KV, D), where H' divides H: several query heads share a head of keys and values.
        pattern: of `kernels.masks`.
        scale: 1/√D unless said.
        method: "eager" writes the scores out and works everywhere; "flex" is torch's flex_attention: compiled on a GPU, where
            it skips empty blocks; on a CPU not compiled, and without gradients. By default flex on a GPU, eager elsewhere.

    Returns:
        (B, H, Q, D).

    ValueError: shapes that do not fit, another method, or gradients by flex on a CPU.
    """
    if q.dim() != 4 or k.dim() != 4 or k.shape != v.shape or (q.shape[0], q.shape[3]) != (k.shape[0], k.shape[3]):
        shapes = ", ".join(str(tuple(one.shape)) for one in (q, k, v))
        raise ValueError(f"q, k, v: got shapes {shapes}, expected (B, H, Q, D) and twice (B, H', KV, D)")
    if q.shape[1] % k.shape[1]:
        raise ValueError(f"k: got {k.shape[1]} heads, expected a divisor of q's {q.shape[1]}")
    pattern.fits(q.shape[1], q.shape[2], k.shape[2])
    method = method or ("flex" if q.is_cuda else "eager")
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if method == "eager":
        return _eager(q, k, v, pattern, scale)
    if method == "flex":
        return flex.attention(q, k, v, pattern, scale)
    raise ValueError(f"method: got {method!r}, expected 'eager' or 'flex'")


def _eager(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pattern: Pattern, scale: float) -> torch.Tensor:
    times = q.shape[1] // k.shape[1]
    k, v = (one.repeat_interleave(times, dim=1) for one in (k, v))
    scores = pattern.scores((q * scale) @ k.transpose(-2, -1))
    nothing = scores.isneginf().all(-1, keepdim=True)  # their softmax would be 0 / 0
    return scores.masked_fill(nothing, 0).softmax(-1).masked_fill(nothing, 0).to(v.dtype) @ v
