"""torch's flex_attention: by a pattern, or by blocks that were chosen. Compiled on a GPU, where it skips empty blocks."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.nn.attention import flex_attention as flex
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from kernels.masks.pattern import Pattern


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, pattern: Pattern, scale: float) -> torch.Tensor:
    """As `kernels.masks.attention`. ValueError: gradients on a CPU."""
    if not q.is_cuda and torch.is_grad_enabled() and any(one.requires_grad for one in (q, k, v)):
        raise ValueError("method: got 'flex', which has no gradients on a CPU; expected 'eager', or torch.no_grad()")
    mask = None
    if pattern.mask_mod is not None:
        mask = create_block_mask(pattern.mask_mod, q.shape[0], q.shape[1], q.shape[2], k.shape[2], q.device)
    shared = q.shape[1] > k.shape[1]
    return by(q.device)(q, k, v, score_mod=pattern.score_mod, block_mask=mask, scale=scale, enable_gqa=shared)


def chosen_mask(chosen: torch.Tensor, block: int) -> BlockMask:
    """The mask of B×H×blocks×kept chosen blocks of keys, each seen in full, where queries have as many blocks as keys.

    Compiled, flex_attention goes by the blocks alone; uncompiled, by the function of positions alone. Here they say the same.
    """
    kept, count = chosen.shape[3], chosen.shape[2]
    order = torch.zeros(*chosen.shape[:2], count, count, dtype=torch.int32, device=chosen.device)
    order[..., :kept] = chosen.sort().values
    full = torch.full(chosen.shape[:3], kept, dtype=torch.int32, device=chosen.device)
    seen = torch.zeros_like(order, dtype=torch.bool).scatter(-1, chosen, True)

    def among(b: torch.Tensor, h: torch.Tensor, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
        return seen[b, h, q // block, kv // block]

    none = torch.zeros_like(full), torch.zeros_like(order)  # no block is partial
    return BlockMask.from_kv_blocks(*none, full, order, BLOCK_SIZE=block, mask_mod=among)


def by(device: torch.device | str) -> Callable[..., torch.Tensor]:
    """flex_attention as it is called on a device."""
    return _compiled() if torch.device(device).type == "cuda" else _uncompiled


@cache
def _compiled() -> Callable[..., torch.Tensor]:
    compiled = torch.compile(flex_attention)

    def call(*args: Any, **kwargs: Any) -> torch.Tensor:
        # PyTorch 2.11 makes a symbol of a second scale, and its compiler then refuses flex_attention.
        with torch._dynamo.config.patch(specialize_float=True):
            return compiled(*args, **kwargs)

    return call


def _uncompiled(*args: Any, **kwargs: Any) -> torch.Tensor:
    """By PyTorch's own switch for looking into masks, since it compiles a wrapper for every call else, in seconds."""
    before = flex._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG
    flex._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True
    try:
        return flex_attention(*args, **kwargs)
    finally:
        flex._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = before
