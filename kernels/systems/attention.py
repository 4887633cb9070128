"""Attention modules: fused projections and one call for all heads, proved against a loop over heads and positions."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from kernels.claims import Claim, Number
from kernels.measure import Race, race
from kernels.modules import GroupedQueryAttention, NaiveAttention
from kernels.records import ModelRecord, check_model
from kernels.system import Shown, System

# dim, query heads, key and value heads, causal, rotary
SHAPES = ((24, 3, 3, False, False), (32, 4, 2, True, True), (16, 4, 1, True, False))


def check(make: type[nn.Module], device: str) -> tuple[float, str | None]:
    """Outputs and gradients of every shape, then a sequence in two parts, the second of which gets the first one's cache."""
    worst = 0.0
    for shape in SHAPES:
        record = ModelRecord("attention", _built(make, shape), _built(NaiveAttention, shape), _batch(shape[0]), (), {})
        ratio, failure = check_model(record, record.build, device=device)
        if failure:
            return ratio, f"{shape}: {failure}"
        worst = max(worst, ratio)
    module: Any = make(*SHAPES[1]).to(device)
    x = _batch(32)(1)[0].to(device)
    whole, (first, cache) = module(x), module.with_cache(x[:, :3])
    parts = torch.cat([first, module(x[:, 3:], cache)], dim=1)
    if not torch.allclose(parts, whole, atol=1e-5):
        return float("inf"), "a sequence in two parts, with a cache, differs from the whole"
    if any(name.endswith("bias") for name in make(*SHAPES[1], bias=False).state_dict()):
        return float("inf"), "there is a bias, and none was asked for"
    return worst, None


def _built(kind: type[nn.Module], shape: tuple) -> Any:
    return lambda seed: kind(*shape)


def _batch(dim: int) -> Any:
    return lambda seed: (torch.randn(2, 7, dim, generator=torch.Generator().manual_seed(seed)),)


class NotScaled(GroupedQueryAttention):
    def attend(self, q, k, v, past):
        return super().attend(q * self.head_dim**0.5, k, v, past)


class WrongShare(GroupedQueryAttention):
    """Gives query head h the key head h modulo their number."""

    def attend(self, q, k, v, past):
        times = self.num_heads // self.num_kv_heads
        return super().attend(q, k.repeat(1, times, 1, 1), v.repeat(1, times, 1, 1), past)


class AlwaysBias(GroupedQueryAttention):
    def __init__(self, *sizes, bias=True):
        super().__init__(*sizes)


class ForgetsThePast(GroupedQueryAttention):
    """Turns the positions after a cache from 0 on."""

    def with_cache(self, x, cache=None):
        if cache is None or self.rotary is None:
            return super().with_cache(x, cache)
        q, k, v = self.heads(x)
        k, v = torch.cat([cache[0], self.rotary(k)], dim=-2), torch.cat([cache[1], v], dim=-2)
        return self.out(self.attend(self.rotary(q), k, v, cache[0].shape[-2]).transpose(1, 2).reshape(x.shape)), (k, v)


@torch.no_grad()
def raced(device: str, batch: int, length: int, dim: int) -> tuple[Race, Race]:
    """Whole attention, then the projections alone, each against its naive twin."""
    x = torch.randn(batch, length, dim, device=device)
    fused = GroupedQueryAttention(dim, 8, 8, True).to(device)
    naive = NaiveAttention(dim, 8, 8, True).to(device)
    naive.load_state_dict(fused.state_dict())
    whole = race({"loop": lambda: naive(x), "one call": lambda: fused(x)}, device)
    products = {"three products": lambda: naive.heads(x)[0], "one product": lambda: fused.heads(x)[0]}
    return whole, race(products, device)


def against_naive(device: str) -> Mapping[str, Number]:
    sizes = (4, 128, 512) if device == "cuda" else (1, 64, 128)
    whole, products = raced(device, *sizes)
    return {
        "loop over heads and positions": whole.ratio("loop", "one call"),
        "three products": products.ratio("three products", "one product"),
    }


def demo(device: str, quick: bool) -> Shown:
    whole, products = raced(device, 1, 16 if quick else 64, 128)
    return Shown(
        "attention of 8 heads: one product for queries, keys and values, one call for all heads and positions",
        "outputs, gradients and a sequence continued from its cache equal the loop, by the course's error bound",
        f"{whole.ratio('loop', 'one call').median:.0f} times as fast as the loop; the product alone "
        f"{products.ratio('three products', 'one product').median:.1f} times as fast as three",
        whole.plot(),
    )


SYSTEM = System(
    name="attention",
    summary="multi-head and grouped-query attention with fused projections, rotary positions and a cache",
    modules=("kernels.modules.attention", "kernels.modules.rotary"),
    make=GroupedQueryAttention,
    proof="a loop over heads and positions in float64: outputs, gradients, and a cache against the whole sequence",
    check=check,
    wrong={
        "a bias that was not asked for": AlwaysBias,
        "scores not scaled": NotScaled,
        "query heads share the wrong key heads": WrongShare,
        "positions after a cache start at 0": ForgetsThePast,
    },
    demo=demo,
    from_torch=("scaled_dot_product_attention", "the matrix products"),
    claims=(
        Claim(
            name="native-over-naive",
            text="native over naive 2–3×",
            source="five-level project",
            conditions="none given",
            verdict="partly",
            reason="a loop is slower by orders of magnitude, three products in place of one by less than is claimed",
            evidence="measured",
            experiment=against_naive,
        ),
    ),
)
