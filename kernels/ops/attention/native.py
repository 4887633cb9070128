"""Level 1: attention in PyTorch operators, plain to best, and its signature. Levels 2 and 3 are derived from the last.

loop      a query at a time, as the definition has it.
chunked   keys come in chunks: the softmax is kept up to date, and no row of scores is ever whole (Milakov and Gimelshein 2018).
eager     all scores of all queries at once.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from kernels import arguments
from kernels.operation import Variant
from kernels.ops.attention import band as bands
from kernels.ops.attention.band import band, hidden
from kernels.ops.attention.heads import fit_kernels, shapes, shapes_with_state
from kernels.signature import Signature

CHUNK = 64


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(y, lse), computed in float32 (float64 for float64) and rounded once."""
    B, H, Q, D = q.shape
    heads, KV = k.shape[1], k.shape[2]
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    # The query heads that share a head of keys lie one below the other, as rows of one product.
    rows = q.to(wide).reshape(B, heads, H // heads * Q, D) * (D**-0.5 if scale is None else scale)
    scores = torch.matmul(rows, k.to(wide).transpose(-2, -1)).view(B, H, Q, KV)
    if causal or window is not None:
        unseen = hidden(causal, window, Q, KV, q.device)
        scores = scores.masked_fill(unseen, float("-inf"))
        # A query without keys has 0 / 0 here: the second mask makes it 0, in both directions.
        weights = scores.softmax(-1).masked_fill(unseen, 0.0)
    else:
        weights = scores.softmax(-1)
    y = torch.matmul(weights.view(B, heads, H // heads * Q, KV), v.to(wide)).view(B, H, Q, D)
    return y.to(q.dtype), scores.detach().logsumexp(-1)


def attention_backward(dy, q, k, v, y, state, causal, window, scale):
    """The gradients (dq, dk, dv). With weights p_ij = softmax of the scores, for the query heads that share k and v summed:

    dv_j = sum_i p_ij dy_i,    ds_ij = p_ij (dy_i · v_j - delta_i),    delta_i = sum_j p_ij dy_i · v_j = dy_i · y_i
    dq_i = scale · sum_j ds_ij k_j,    dk_j = scale · sum_i ds_ij q_i
    """
    B, H, Q, D = q.shape
    heads, KV = k.shape[1], k.shape[2]
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    scale = D**-0.5 if scale is None else scale
    rows, dy = (one.to(wide).reshape(B, heads, H // heads * Q, D) for one in (q, dy))
    keys, values = k.to(wide), v.to(wide)
    unseen = hidden(causal, window, Q, KV, q.device).repeat(H // heads, 1)
    scores = (rows * scale @ keys.mT).masked_fill(unseen, float("-inf"))
    p = scores.softmax(-1).masked_fill(unseen, 0.0)
    dp = dy @ values.mT
    ds = p * (dp - (p * dp).sum(-1, keepdim=True)) * scale
    dq, dk, dv = ds @ keys, ds.mT @ rows, p.mT @ dy
    return dq.view(q.shape).to(q.dtype), dk.to(k.dtype), dv.to(v.dtype)


def loop(q, k, v, causal=False, window=None, scale=None):
    """A query of a head at a time: what it sees is a slice of the keys."""
    B, H, Q, D = q.shape
    heads, KV = k.shape[1], k.shape[2]
    left, right = band(causal, window, Q, KV)
    scale = D**-0.5 if scale is None else scale
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    ys, lses = [], []
    for h in range(H):
        keys, values = (one[:, h * heads // H].to(wide) for one in (k, v))
        for i in range(Q):
            place = i + KV - Q
            seen = slice(max(place - left, 0), max(place + right + 1, 0))
            scores = torch.einsum("bd,bjd->bj", q[:, h, i].to(wide), keys[:, seen]) * scale
            ys.append(torch.einsum("bj,bjd->bd", scores.softmax(-1), values[:, seen]))
            lses.append(scores.detach().logsumexp(-1))
    if not ys:
        return attention(q, k, v, causal, window, scale)
    y, lse = torch.stack(ys, 1).view(q.shape), torch.stack(lses, 1).view(B, H, Q)
    return y.to(q.dtype), lse


def chunked(q, k, v, causal=False, window=None, scale=None):
    """Keys by chunks. Of those so far a query keeps the largest score m, the sum of exp(score - m), and what the values come
    to: a chunk with a larger score makes both smaller by exp(m - larger)."""
    if not k.shape[2]:
        return attention(q, k, v, causal, window, scale)  # no chunk, and gradients all the same
    (B, H, Q, D), (heads, KV) = q.shape, k.shape[1:3]
    left, right = band(causal, window, Q, KV)
    wide = torch.float64 if q.dtype == torch.float64 else torch.float32
    rows = q.to(wide).reshape(B, heads, H // heads, Q, D) * (D**-0.5 if scale is None else scale)
    places = torch.arange(KV - Q, KV, device=q.device).unsqueeze(-1)
    y, total = torch.zeros_like(rows), rows.new_zeros((*rows.shape[:-1], 1))
    largest = torch.full_like(total, -torch.inf)
    for start in range(0, KV, CHUNK):
        keys, values = (one[:, :, None, start : start + CHUNK].to(wide) for one in (k, v))
        apart = torch.arange(start, start + keys.shape[-2], device=q.device) - places
        scores = (rows @ keys.mT).masked_fill((apart < -left) | (apart > right), -torch.inf)
        larger = torch.maximum(largest, scores.detach().amax(-1, keepdim=True))
        shift = larger.masked_fill(larger == -torch.inf, 0.0)  # no key so far, and -inf - -inf is NaN
        weights, fade = (scores - shift).exp(), (largest - shift).exp()
        total, y, largest = total * fade + weights.sum(-1, keepdim=True), y * fade + weights @ values, larger
    y = y / total.masked_fill(total == 0, 1.0)
    return y.view(q.shape).to(q.dtype), (largest + total.detach().log()).view(B, H, Q)


SOURCE = (Path(__file__), Path(bands.__file__))
FORWARD = (
    Variant(1, "loop", loop, "a query at a time", SOURCE),
    Variant(1, "chunked", chunked, "keys by chunks: no row of scores is ever whole", SOURCE),
)


def validate(q, k, v, causal, window, scale) -> None:
    arguments.floating("q", q, "(B, H, Q, D)")
    if q.dim() != 4 or q.shape[-1] == 0:
        raise ValueError(f"q: got shape {tuple(q.shape)}, expected (B, H, Q, D) with D of at least 1")
    if not isinstance(k, torch.Tensor):
        raise TypeError(f"k: got {type(k).__name__}, expected a torch.Tensor")
    if k.dim() != 4 or k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ValueError(
            f"k: got shape {tuple(k.shape)}, expected (B, H', KV, D), H' a divisor of q's {q.shape[1]} heads"
        )
    arguments.like("k", k, (q.shape[0], *k.shape[1:3], q.shape[3]), "q", q, why="B and D as q has them")
    arguments.like("v", v, k.shape, "k", k)
    if window is not None and (isinstance(window, bool) or not isinstance(window, int) or window < 1):
        raise ValueError(f"window: got {window!r}, expected a whole number of at least 1, or None")
    if scale is not None:
        arguments.number("scale", scale)
        if scale == 0:
            raise ValueError(f"scale: got {scale!r}, expected a positive number")


def validate_for_kernel(q, *others) -> None:
    validate(q, *others)
    fit_kernels(q)


PARAMETERS = "(Tensor q, Tensor k, Tensor v, bool causal=False, int? window=None, float? scale=None)"
SIGNATURE = Signature(  # of kernels, whose backward is given more than their callers
    f"{PARAMETERS} -> (Tensor y, Tensor lse, Tensor state)",
    validate=validate_for_kernel,
    shapes=shapes_with_state,
    gradients=("q", "k", "v"),
    save=("q", "k", "v", "y", "state"),
    non_differentiable=("lse", "state"),
    native_backward=attention_backward,
)
NATIVE_SIGNATURE = replace(
    SIGNATURE,
    schema=f"{PARAMETERS} -> (Tensor y, Tensor lse)",
    shapes=shapes,
    save=("q", "k", "v", "y", "lse"),
    non_differentiable=("lse",),
)


def without_state(rung: Variant) -> Variant:
    """A rung of kernels as its callers see it."""

    def call(*args: Any, **kwargs: Any) -> tuple[torch.Tensor, torch.Tensor]:
        y, lse, _ = fn(*args, **kwargs)
        return y, lse

    fn = rung.fn
    return replace(rung, fn=call)
