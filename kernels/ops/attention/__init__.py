"""Attention: each query's mean of the values, by the softmax of its scores with the keys (Vaswani et al. 2017).

    s_ij  = scale · q_i · k_j                              for the keys j that query i sees
    lse_i = log(sum_j exp(s_ij))
    y_i   = sum_j exp(s_ij - lse_i) v_j

for every batch b and head h of B×H×Q×D queries and B×H'×KV×D keys and values; H/H' query heads next to each other share a head
of keys (Ainslie et al. 2023, "GQA"). The last query stands at the last key, so query i is at place p = i + KV - Q. Causal: it
sees keys j <= p. With a window: those with |j - p| < window. A query that sees no key has y = 0 and lse = -inf.

Levels 4 and 5 never write scores to memory: "FlashAttention", Dao et al. 2022.
"""

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from kernels import levels
from kernels.operation import Operation, Output
from kernels.ops.attention import (
    cuda_backward,
    cuda_forward,
    native,
    triton_backward,
    triton_descriptors,
    triton_forward,
    triton_one_walk,
    wrong,
)
from kernels.ops.attention.cases import CASES, backward_cost, cost, few, make_inputs
from kernels.ops.attention.native import SIGNATURE
from kernels.ops.attention.peers import PEERS
from kernels.ops.attention.rounded_factors import RoundedFactors
from kernels.registration import join


@levels.documented
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    level: int | str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(y, lse); y is differentiable in q, k and v.

    Args:
        q: shape (B, H, Q, D), float32, float16 or bfloat16 (levels 1 to 3 also float64), any strides; D at most 256 at levels 4
            and 5.
        k, v: shape (B, H', KV, D), where H' divides H; dtype and device of q, any strides.
        causal: whether a query sees no key after its own place, where the last query stands at the last key.
        window: a query sees keys fewer than so many places away; None: however far.
        scale: of the scores, positive; 1/√D unless said.

    Returns:
        y, shape, dtype and device of q; lse, the logarithm of each query's sum of exponentials, shape (B, H, Q), float32
        (float64 for float64). A query that sees no key has 0 and -inf.
    """
    return OPERATION.defaults[levels.chosen(level, q)](q, k, v, causal, window, scale)


def seen(q, k, causal, window):
    """Q×KV booleans, by the definition."""
    Q, KV = q.shape[2], k.shape[2]
    i, j = torch.arange(Q, device=q.device)[:, None], torch.arange(KV, device=q.device)
    place = i + KV - Q
    everything = torch.ones(Q, KV, dtype=torch.bool, device=q.device)
    return everything & (j <= place if causal else everything) & ((j - place).abs() < window if window else everything)


def reference(q, k, v, causal=False, window=None, scale=None):
    """The definition, in float64; a sequence of the batch at a time, so that the bench's cases fit in a GPU's memory."""
    if q.is_cuda and q.shape[0] > 1:
        ones = zip(q.split(1), k.split(1), v.split(1), strict=True)
        found = [checkpoint(reference, *one, causal, window, scale, use_reentrant=False) for one in ones]
        return tuple(map(torch.cat, zip(*found, strict=True)))
    mask = seen(q, k, causal, window)
    times = q.shape[1] // k.shape[1]
    q, k, v = q.double(), k.double().repeat_interleave(times, 1), v.double().repeat_interleave(times, 1)
    s = torch.einsum("bhid,bhjd->bhij", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    s = s.masked_fill(~mask, -torch.inf)
    p = s.softmax(-1).masked_fill(~mask, 0)
    return torch.einsum("bhij,bhjd->bhid", p, v), s.detach().logsumexp(-1)


def torch_attention(q, k, v, causal=False, window=None, scale=None):
    """PyTorch's own. Queries without keys, of which it makes NaN in some versions, see all keys there and are cleared."""
    mask = seen(q, k, causal, window)
    alone = ~mask.any(-1, keepdim=True)
    shared = k.shape[1] < q.shape[1]
    plain = bool(mask.all())
    if q.numel() and k.numel():
        query, key, value = (
            one.contiguous() for one in (q, k, v)
        )  # a GPU's kernels may refuse rows that are not aligned
        mask_or_none = None if plain else mask | alone
        y = F.scaled_dot_product_attention(query, key, value, mask_or_none, scale=scale, enable_gqa=shared)
    else:  # where PyTorch's own has given None on a GPU
        y = reference(q, k, v, causal, window, scale)[0].to(q.dtype)
    keys = k.detach().float().repeat_interleave(q.shape[1] // k.shape[1], 1)
    s = q.detach().float() @ keys.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    return y.masked_fill(alone, 0), s.masked_fill(~mask, -torch.inf).logsumexp(-1)


def rounded_attention(q, k, v, causal=False, window=None, scale=None):
    """A sequence of the batch at a time, as the reference."""
    if not q.numel() or not k.numel():
        return torch_attention(q, k, v, causal, window, scale)
    times, scale = q.shape[1] // k.shape[1], q.shape[-1] ** -0.5 if scale is None else scale
    wide = q.float(), k.float().repeat_interleave(times, 1), v.float().repeat_interleave(times, 1)
    visible = seen(q, k, causal, window)
    ones = [
        RoundedFactors.apply(*one, visible, scale, q.dtype) for one in zip(*(x.split(1) for x in wide), strict=True)
    ]
    y, lse = map(torch.cat, zip(*ones, strict=True))
    return y.to(q.dtype), lse.detach()


TRITON = join(
    SIGNATURE,
    "attention_triton",
    (*triton_forward.FORWARD, *triton_descriptors.FORWARD),
    (*triton_one_walk.BACKWARD, *triton_backward.BACKWARD, *triton_descriptors.BACKWARD),
)
CUDA = join(SIGNATURE, "attention_cuda", cuda_forward.FORWARD, cuda_backward.BACKWARD)
(TRITON_FORWARD, TRITON_BACKWARD), (CUDA_FORWARD, CUDA_BACKWARD) = (
    [tuple(map(native.without_state, rungs)) for rungs in ladders] for ladders in (TRITON, CUDA)
)

OPERATION = Operation(
    name="attention",
    reference=reference,
    baseline=torch_attention,
    second_baseline={"float16": rounded_attention, "bfloat16": rounded_attention},
    make_inputs=make_inputs,
    gradients=("q", "k", "v"),
    outputs=(Output(), Output("lse", "float32", differentiable=False)),
    forward=(
        *native.FORWARD,
        *levels.from_native(native.attention, native.__file__),
        *TRITON_FORWARD,
        *CUDA_FORWARD,
    ),
    backward=(*TRITON_BACKWARD, *CUDA_BACKWARD),
    wrong=wrong.VARIANTS,
    peers=PEERS,
    cost=cost,
    backward_cost=backward_cost,
    cases=CASES,
    validate=native.validate,
    few=few,
)
