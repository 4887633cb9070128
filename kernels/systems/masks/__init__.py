"""Attention patterns: proved against a loop over positions, and their blocks counted."""

import math
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import torch

from kernels import masks
from kernels.claims import Claim, Number
from kernels.masks.pattern import Pattern
from kernels.measure.patterns import flash_rates, skipped
from kernels.system import Shown, System
from kernels.systems.masks import wrong
from kernels.tolerance import compare

PARTS: dict[str, Any] = {
    name: getattr(masks, name)
    for name in ("alibi", "attention", "blocks", "causal", "custom", "document", "prefix", "sliding_window", "softcap")
}
IDS = ((0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3), (5, 5, 5, 5, 4, 4, 4, 4, 4, 4, 4))  # documents of equal lengths among them
CAP, WINDOW, PREFIX, BATCH, HEADS, LENGTH, WIDTH, BLOCK = (
    0.7,
    3,
    4,
    2,
    6,
    11,
    16,
    4,
)  # 16: what flex_attention needs on a GPU
LENGTHS = (1_024, 4_096, 16_384)  # of the experiments
SLOPES = (1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2, 1 / 8)  # of six heads, by hand


def cases(made: Mapping[str, Any], device: str) -> dict[str, tuple[Pattern, Any, Any]]:
    """By name: the pattern, whether a query sees a key, and its changed score, both of plain integers."""
    causal, ids = made["causal"](), torch.tensor(IDS, device=device)
    after, own = lambda b, h, q, kv: kv <= q, lambda score, b, h, q, kv: score
    return {
        "causal": (causal, after, own),
        "sliding_window": (made["sliding_window"](WINDOW), lambda b, h, q, kv: kv in range(q - WINDOW + 1, q + 1), own),
        "document": (made["document"](ids), lambda b, h, q, kv: IDS[b][q] == IDS[b][kv], own),
        "document & causal": (
            made["document"](ids[0]) & causal,
            lambda b, h, q, kv: IDS[0][q] == IDS[0][kv] and kv <= q,
            own,
        ),
        "prefix": (made["prefix"](PREFIX), lambda b, h, q, kv: kv < PREFIX or kv <= q, own),
        "alibi & causal": (
            made["alibi"](HEADS) & causal,
            after,
            lambda score, b, h, q, kv: score - SLOPES[h] * (q - kv),
        ),
        "alibi, both ways": (
            made["alibi"](HEADS),
            lambda b, h, q, kv: True,
            lambda score, b, h, q, kv: score - SLOPES[h] * abs(q - kv),
        ),
        "softcap & causal": (
            made["softcap"](CAP) & causal,
            after,
            lambda score, b, h, q, kv: CAP * torch.tanh(score / CAP),
        ),
        "custom, with queries that see nothing": (
            made["custom"](lambda b, h, q, kv: (q > 2) & (kv % (h + 2) == 0)),
            lambda b, h, q, kv: q > 2 and kv % (h + 2) == 0,
            own,
        ),
    }


def loop(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, sees: Any, change: Any) -> torch.Tensor:
    """Attention a position at a time; two query heads share a head of keys and values."""
    rows = []
    for b, h, i in ((b, h, i) for b in range(q.shape[0]) for h in range(q.shape[1]) for i in range(q.shape[2])):
        seen = [j for j in range(k.shape[2]) if sees(b, h, i, j)]
        if not seen:
            rows.append(torch.zeros_like(q[b, h, i]) * q[b, h, i])
            continue
        raw = (k[b, h // 2, seen] @ q[b, h, i] / math.sqrt(q.shape[-1])).unbind()
        weights = torch.stack([change(one, b, h, i, j) for one, j in zip(raw, seen, strict=True)]).softmax(0)
        rows.append(weights @ v[b, h // 2, seen])
    return torch.stack(rows).view(q.shape)


def results(call: Any, data: list[torch.Tensor], dtype: torch.dtype) -> list[torch.Tensor]:
    leaves = [one.detach().to(dtype, copy=True).requires_grad_() for one in data[:3]]
    output = call(*leaves)
    return [output.detach(), *torch.autograd.grad(output, leaves, data[3].to(dtype))]


def tensors(name: str) -> list[torch.Tensor]:
    """Queries, keys, values, and the gradient of the output; two sequences where the pattern differs between them."""
    drawn = torch.Generator().manual_seed(0)
    heads = (HEADS, HEADS // 2, HEADS // 2, HEADS)
    return [torch.randn(_batch(name), count, LENGTH, WIDTH, generator=drawn) for count in heads]


def _batch(name: str) -> int:
    return BATCH if name == "document" else 1


@cache
def by_loop(name: str, dtype: torch.dtype) -> list[torch.Tensor]:
    _, sees, change = cases(PARTS, "cpu")[name]
    return results(lambda q, k, v: loop(q, k, v, sees, change), tensors(name), dtype)


def check(make: Mapping[str, Any], device: str) -> tuple[float, str | None]:
    """Outputs and gradients of every pattern, and flex_attention's outputs; then the kinds of all blocks."""
    worst = 0.0
    for name, (pattern, sees, _) in cases(make, device).items():
        exact, plain = (by_loop(name, dtype) for dtype in (torch.float64, torch.float32))
        there, batch = [one.to(device) for one in tensors(name)], _batch(name)
        got = results(partial(make["attention"], pattern=pattern, method="eager"), there, torch.float32)
        with torch.no_grad():
            got.append(make["attention"](*there[:3], pattern, method="flex"))
        for what, one, at in zip(("output", "dq", "dk", "dv", "flex"), got, (0, 1, 2, 3, 0), strict=True):
            ratio, failure = compare(one.cpu(), exact[at], plain[at], torch.float32)
            if failure:
                return ratio, f"{name}, {what}: {failure}"
            worst = max(worst, ratio)
        kinds = make["blocks"](pattern, batch, HEADS, LENGTH, LENGTH, BLOCK, device).kinds.tolist()
        for b, h, i, j in (
            (b, h, i, j) for b in range(batch) for h in range(HEADS) for i in range(3) for j in range(3)
        ):
            rows, columns = (range(BLOCK * one, min(BLOCK * one + BLOCK, LENGTH)) for one in (i, j))
            seen = [sees(b, h, row, column) for row in rows for column in columns]
            if kinds[b][h][i][j] != any(seen) + all(seen):
                return (
                    math.inf,
                    f"{name}: block {(b, h, i, j)} has {sum(seen)} of {len(seen)} pairs, another kind was said",
                )
    return worst, None


def halved(device: str) -> Mapping[str, Number]:
    """All blocks over those that causal attention computes; on a GPU the times too."""
    found = {}
    for length in LENGTHS:
        ratio = 1 / masks.blocks(masks.causal(), 1, 1, length, length, 128).density
        found[f"blocks, {length:,} positions"] = Number.exact(ratio, "×")
    return found | (skipped(LENGTHS) if device == "cuda" else {})


def demo(device: str, quick: bool) -> Shown:
    length, size = (512, 64) if quick else (2048, 128)
    ids = torch.repeat_interleave(torch.arange(4), length // 4)
    shown = {
        "causal": masks.causal(),
        "sliding window": masks.sliding_window(length // 8),
        "documents": masks.document(ids) & masks.causal(),
        "prefix": masks.prefix(length // 4),
    }
    picture = masks.picture(shown, length, size)
    return Shown(
        "patterns of attention as functions of positions, put together by &, read by a plain path and by flex_attention",
        "outputs, gradients and the kinds of all blocks equal a loop over positions in float64",
        picture.alt,
        picture,
    )


SYSTEM = System(
    name="masks",
    summary="patterns of attention by FlexAttention’s convention, with block masks and a plain path with gradients",
    modules=("kernels.masks.patterns", "kernels.masks.attention", "kernels.masks.blocks"),
    make=PARTS,
    proof="a loop over positions in float64, outputs and gradients; every block’s pairs, counted one by one",
    check=check,
    wrong={
        "the window is one too wide": PARTS | {"sliding_window": wrong.one_too_many},
        "documents of equal length are one": PARTS | {"document": wrong.equal_lengths},
        "ALiBi’s slopes in falling order": PARTS | {"alibi": wrong.sorted_slopes},
        "the softcap comes after the mask": PARTS | {"attention": wrong.mask_then_change},
        "a query that sees nothing averages all": PARTS | {"attention": wrong.averages_all},
        "heads of keys are dealt out in turns": PARTS | {"attention": wrong.heads_in_turns},
        "smaller last blocks count as partial": PARTS | {"blocks": wrong.without_rest},
        "blocks are told by their corners": PARTS | {"blocks": wrong.by_corners},
    },
    demo=demo,
    from_torch=("flex_attention, the compiled path on a GPU", "the matrix products and softmax of the plain path"),
    claims=(
        Claim(
            name="causal-sparsity-2x",
            text="a causal mask has about 50% sparsity, so not taking advantage of the sparsity would result in a 2x slowdown",
            source="PyTorch’s blog, FlexAttention (August 2024)",
            conditions="blocks of 128",
            verdict="partly",
            reason="the blocks to compute come near a half as the length grows, and short sequences keep more: those on the "
            "diagonal; skipping them saves less time than that on short ones, and more on long ones",
            evidence="measured",
            experiment=halved,
        ),
        Claim(
            name="flex-90-percent-of-flash",
            text="FlexAttention achieves 90% of FlashAttention2's performance in the forward pass and 85% in the backward pass",
            source="PyTorch’s blog, FlexAttention (August 2024)",
            conditions="causal attention, on an A100",
            verdict="partly",
            reason="against torch’s flash attention the forward holds, the backward at the shorter lengths alone",
            evidence="measured",
            experiment=flash_rates,
            devices=("cuda",),
        ),
    ),
)
