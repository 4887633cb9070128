"""What patterns of attention cost on a GPU: 16 heads of 64 in bfloat16, block masks made beforehand.

Contestants return none of their elements: the check of each has compared them, and near zero those of bfloat16 differ by
more than a race allows.
"""

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

from kernels.claims import Number
from kernels.masks import causal, flex
from kernels.measure.race import race

HEADS, WIDTH, BLOCK = 16, 64, 128


def skipped(lengths: Iterable[int]) -> dict[str, Number]:
    """Causal flex_attention that computes all scores and masks them, over one that skips blocks."""
    found = {}
    for length in lengths:
        q, k, v = _heads(length)
        mask = _causal(length)
        calls: dict[str, Callable[[], torch.Tensor]] = {
            "all scores": partial(_none_of, flex.by("cuda"), q, k, v, score_mod=_later_are_masked),
            "blocks": partial(_none_of, flex.by("cuda"), q, k, v, block_mask=mask),
        }
        with torch.no_grad():
            found[f"time, {length:,} positions"] = race(calls, "cuda").ratio("all scores", "blocks")
    return found


def flash_rates(device: str) -> dict[str, Number]:
    """The time of torch's causal flash attention over flex_attention's, forward and backward."""
    found = {}
    for length in (2_048, 8_192, 16_384):
        q, k, v = (one.requires_grad_() for one in _heads(length))
        sent, mask = torch.randn_like(q), _causal(length)
        ways: dict[str, Callable[[], torch.Tensor]] = {
            "flash": partial(F.scaled_dot_product_attention, q, k, v, is_causal=True),
            "flex": partial(flex.by("cuda"), q, k, v, block_mask=mask),
        }
        # a compiled backward gives its buffers away, unless told that it runs more than once
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION), torch._functorch.config.patch(donated_buffer=False):
            outputs = {name: way() for name, way in ways.items()}
            backward: dict[str, Callable[[], torch.Tensor]] = {
                name: partial(_none_of, _first_gradient, one, (q, k, v), sent) for name, one in outputs.items()
            }
            found[f"backward, {length:,} positions"] = race(backward, "cuda").ratio("flash", "flex")
            with torch.no_grad():
                forward: dict[str, Callable[[], torch.Tensor]] = {
                    name: partial(_none_of, way) for name, way in ways.items()
                }
                found[f"forward, {length:,} positions"] = race(forward, "cuda").ratio("flash", "flex")
    return found


def chosen_blocks(density: float, lengths: Iterable[int]) -> dict[str, Number]:
    """Dense torch attention over flex_attention that reads a share of the blocks, chosen at random; forward."""
    found = {}
    for length in lengths:
        q, k, v = _heads(length)
        count = length // BLOCK
        kept = max(1, round(density * count))
        mask = flex.chosen_mask(torch.rand(1, HEADS, count, count, device="cuda").topk(kept).indices, BLOCK)
        calls: dict[str, Callable[[], torch.Tensor]] = {
            "dense": partial(_none_of, F.scaled_dot_product_attention, q, k, v),
            "chosen": partial(_none_of, flex.by("cuda"), q, k, v, block_mask=mask),
        }
        with torch.no_grad():
            found[f"time, {length:,} positions"] = race(calls, "cuda").ratio("dense", "chosen")
    return found


def _heads(length: int) -> list[torch.Tensor]:
    return [torch.randn(1, HEADS, length, WIDTH, device="cuda", dtype=torch.bfloat16) for _ in range(3)]


def _causal(length: int) -> BlockMask:
    mask_mod = causal().mask_mod
    assert mask_mod is not None
    return create_block_mask(mask_mod, None, None, length, length, "cuda")


def _later_are_masked(score, b, h, q, kv):
    return torch.where(kv <= q, score, -math.inf)


def _none_of(call: Callable[..., torch.Tensor], *args: Any, **kwargs: Any) -> torch.Tensor:
    return call(*args, **kwargs)[..., :0]


def _first_gradient(output: torch.Tensor, leaves: tuple[torch.Tensor, ...], sent: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(output, leaves, sent, retain_graph=True)[0]
