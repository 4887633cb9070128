"""Decoding whose values are added key after key: what rounding costs a kernel that walks along the keys."""

import torch

from kernels.ops.decode.native import decode, gathered
from kernels.ops.matmul.in_order import product


def in_order(q, k, v, lengths, table=None, scale=None):
    """As kernels.decode is called."""
    _, lse = decode(q, k, v, lengths, table, scale)
    if table is not None:
        k, v = gathered(k, lengths, table), gathered(v, lengths, table)
    (B, H, D), (heads, S) = q.shape, k.shape[1:3]
    unseen = (torch.arange(S, device=q.device) >= lengths.unsqueeze(-1)).view(B, 1, 1, S)
    rows = q.view(B, heads, H // heads, D) * (D**-0.5 if scale is None else scale)
    scores = (rows @ k.mT).masked_fill(unseen, float("-inf"))
    weights = (scores - lse.view(B, heads, H // heads, 1)).exp().masked_fill(unseen, 0.0)  # of no key it makes NaN
    return product(weights, v.masked_fill(unseen.mT, 0.0)).reshape(B, H, D), lse
