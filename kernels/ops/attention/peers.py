"""What attention is timed against: PyTorch's own kernels, each of which gives the LSE too, and its compiler's."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from kernels.case import Case
from kernels.machine import Machine
from kernels.operation import Peer
from kernels.unsupported import needs_gpu

ATEN = torch.ops.aten


def unsupported(case: Case, machine: Machine) -> str | None:
    """PyTorch's kernels by themselves know neither windows nor grouped heads, and stand the first query at the first key."""
    if reason := needs_gpu(case, machine):
        return reason
    if case.sizes or case.params.get("window"):
        return "has neither windows, grouped heads nor other numbers of keys"
    return "has no float32" if case.dtype == "float32" else None


def sdpa_flash(q, k, v, causal=False, window=None, scale=None):
    y, lse, *_ = ATEN._scaled_dot_product_flash_attention(q, k, v, is_causal=causal, scale=scale)
    return y, lse.detach()


def sdpa_cudnn(q, k, v, causal=False, window=None, scale=None):
    y, lse, *_ = ATEN._scaled_dot_product_cudnn_attention(q, k, v, None, True, is_causal=causal, scale=scale)
    return y, lse.detach().reshape(q.shape[:-1])


def flex():
    compiled: Callable[..., Any] = torch.compile(flex_attention, dynamic=False)

    @functools.cache
    def mask_of(Q: int, KV: int, causal: bool, window: int | None, device: torch.device):
        def seen(b, h, i, j):
            apart = j - (i + KV - Q)
            inside = apart.abs() < (window or Q + KV)
            return inside & (apart <= 0) if causal else inside

        return create_block_mask(seen, None, None, Q, KV, device=device) if causal or window else None

    def fn(q, k, v, causal=False, window=None, scale=None):
        mask = mask_of(q.shape[2], k.shape[2], causal, window, q.device)
        shared = k.shape[1] < q.shape[1]
        y, lse = compiled(q, k, v, block_mask=mask, scale=scale, enable_gqa=shared, return_lse=True)
        return y, lse.detach()

    return fn


PEERS = (
    Peer("sdpa-flash", lambda: sdpa_flash, unsupported),
    Peer("sdpa-cudnn", lambda: sdpa_cudnn, unsupported),
    Peer("flex", flex, needs_gpu),
)
