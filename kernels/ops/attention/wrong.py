"""Deliberately wrong attentions, which the check must reject. "gradient-…" have right outputs."""

import math
from functools import partial

import torch

from kernels.ops.attention import cuda_backward, cuda_forward, triton_forward, triton_one_walk
from kernels.ops.attention.native import NATIVE_SIGNATURE, SIGNATURE, attention, attention_backward, without_state
from kernels.wrong import edited, variant


def lse_of_base_2(q, k, v, *parameters):
    y, lse = attention(q, k, v, *parameters)
    return y, lse / math.log(2)


def unscaled(q, k, v, causal, window, scale):
    return attention(q, k, v, causal, window, 1.0 if scale is None else scale)


def from_the_first_key(q, k, v, causal, window, scale):
    """The first query at the first key, where lengths differ."""
    if not causal or window is not None:
        return attention(q, k, v, causal, window, scale)
    KV = min(k.shape[2], q.shape[2])
    return attention(q, k[:, :, :KV], v[:, :, :KV], causal, window, scale)


def next_head(q, k, v, *parameters):
    """Heads of keys in turn, not for neighbours."""
    H, heads = q.shape[1], k.shape[1]
    turns = [h % heads for h in range(H)]
    return attention(q, k[:, turns], v[:, turns], *parameters)


def without_scale(dy, q, k, v, y, state, causal, window, scale):
    dq, dk, dv = attention_backward(dy, q, k, v, y, state, causal, window, scale)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return (dq / scale).to(q.dtype), dk, dv


def stale_fragments(q, *others):
    return (cuda_forward.tiled if q.dtype == torch.float32 else STALE_HALF)(q, *others)


wrong = partial(variant, NATIVE_SIGNATURE, __file__, forward=attention)


def wrong_kernel(name, idea, forward=cuda_forward.tiled, backward=attention_backward):
    return without_state(variant(SIGNATURE, __file__, 5, name, idea, forward=forward, backward=backward))


STALE = edited(cuda_forward.tiled, "sums[c] *= fade;", "")
STALE_SUM = edited(cuda_forward.warp, "part.sum * fade + warp_sum(weight)", "part.sum + warp_sum(weight)")
STALE_HALF = edited(cuda_forward.wmma, "sums[c].x[e] *= row_factors.x[e];", ";")
WIDER = edited(cuda_forward.tiled, "-left <= apart", "-left - 1 <= apart")
FEWER = edited(cuda_forward.tiled, "min(last + KV - Q + right + 1, KV)", "min(last + KV - Q + right, KV)")
FIRST_HEAD = edited(cuda_backward.tiled, "h < (place.h + 1) * n.GROUP", "h < place.h * n.GROUP + 1")
TO_THE_FIRST_HEAD = edited(
    triton_one_walk.one_walk, "dq_ptr + row_start * D", "dq_ptr + (b * H + kv_head * GROUP) * Q * D"
)
NO_DELTA = edited(cuda_backward.tiled, "- delta_value", "")
VARIANTS = (
    wrong(1, "base-2", "gives the LSE in base 2", forward=lse_of_base_2),
    wrong(1, "unscaled", "takes the scores as they are", forward=unscaled),
    wrong(
        1, "first-key", "stands the first query at the first key, not the last at the last", forward=from_the_first_key
    ),
    wrong(1, "next-head", "deals the heads of keys in turn", forward=next_head),
    wrong_kernel("stale-values", "a larger score does not make the values so far fade", forward=STALE),
    wrong_kernel("stale-fragments", "the same on tensor cores", forward=stale_fragments),
    wrong_kernel("stale-sum", "a larger score does not make the sum so far fade", forward=STALE_SUM),
    wrong_kernel("window-off-by-one", "sees one key too many", forward=WIDER),
    wrong_kernel("last-key", "does not see the key at its own place", forward=FEWER),
    wrong(1, "gradient-without-scale", "dq forgets the scale of the scores", backward=without_scale),
    wrong_kernel("gradient-first-head", "dk and dv are those of the first head that shares them", backward=FIRST_HEAD),
    without_state(
        variant(
            SIGNATURE,
            __file__,
            4,
            "gradient-of-group",
            "the first head of a group has the dq of all",
            forward=triton_forward.flash,
            backward=TO_THE_FIRST_HEAD,
        )
    ),
    wrong_kernel("gradient-without-delta", "dq takes the sum of exponentials for a constant", backward=NO_DELTA),
)
