"""Shape bucketing: a bucketed model equals the unpadded one, and its buckets pad least."""

import itertools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from kernels.claims import Claim, Number
from kernels.figures import Picture
from kernels.shapes import Bucketed, Buckets
from kernels.shapes.buckets import STRATEGIES
from kernels.system import Shown, System


def lengths(count: int = 4_000) -> list[int]:
    """Log-normal, as of chat messages, between 1 and 2,048; the same on every machine."""
    drawn = np.random.default_rng(0).lognormal(5.2, 0.9, count)
    return [int(min(max(length, 1), 2_048)) for length in drawn]


def attend(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Attention of the tokens to each other: where padding would show."""
    return F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], mask[:, None, None])[:, 0]


def check(make: type[Bucketed], device: str) -> tuple[float, str | None]:
    samples = [3, 3, 5, 8, 8, 8, 13, 21, 21, 30]
    pads = {count: Buckets.fit(samples, count, multiple_of=1).padding(samples) for count in (1, 2, 3)}
    for count, padding in pads.items():  # every choice of so many lengths
        choices = itertools.combinations(sorted(set(samples)), count)
        least = min(Buckets(one).padding(samples) for one in choices if one[-1] == 30)
        if not math.isclose(padding, least):
            return math.inf, f"{count} buckets pad by {padding:.3g}, and the best choice by {least:.3g}"
    met: set[int] = set()

    def model(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        met.add(x.shape[1])
        return attend(x, mask)

    bucketed = make(model, Buckets.fit(samples, 3, multiple_of=4))
    for length in samples:
        x = torch.randn(2, length, 16, generator=torch.Generator().manual_seed(length)).to(device)
        expected = attend(x, torch.ones(2, length, dtype=torch.bool, device=device))
        got = bucketed(x)
        if got.shape != expected.shape or not torch.allclose(got, expected, atol=1e-6):
            return math.inf, f"length {length}: the output differs from the unpadded one's"
    if not met <= set(bucketed.buckets.lengths):
        return math.inf, f"the model met the lengths {sorted(met)}"
    return 0.0, None


class WithoutMask(Bucketed):
    def __call__(self, x: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        model, self.model = self.model, lambda x, mask: model(x, mask=torch.ones_like(mask))
        try:
            return super().__call__(x, **kwargs)
        finally:
            self.model = model


class Unpadded(Bucketed):
    def __call__(self, x: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        return self.model(x, mask=torch.ones(x.shape[:2], dtype=torch.bool, device=x.device), **kwargs)


def padding(device: str) -> Mapping[str, Number]:
    """Exact: padding by the number of buckets, and how many times fewer tokens than padded to the longest."""
    samples = lengths()
    longest = Buckets.fit(samples, strategy="longest", multiple_of=1).padding(samples)
    found = {}
    for count in (2, 4, 8, 16, 32):
        padded = Buckets.fit(samples, count, multiple_of=1).padding(samples)
        fewer = (1 + longest) / (1 + padded)
        found[f"padding, {count} buckets"] = Number(100 * padded, 100 * padded, 100 * padded, "%")
        found[f"tokens saved, {count} buckets"] = Number(fewer, fewer, fewer, "×")
    return found


def demo(device: str, quick: bool) -> Shown:
    import plotly.graph_objects as go

    samples = lengths(1_000 if quick else 4_000)
    counts = (2, 4, 8) if quick else (2, 4, 8, 12, 16)
    lines = [
        go.Scatter(
            x=counts,
            y=[100 * Buckets.fit(samples, count, strategy=strategy).padding(samples) for count in counts],
            name=strategy,
            mode="lines+markers",
        )
        for strategy in STRATEGIES[:3]
    ]
    layout = {"xaxis": {"title": "buckets"}, "yaxis": {"title": "padding, % of the tokens", "rangemode": "tozero"}}
    ends = ", ".join(f"{line.name} {line.y[-1]:.0f} %" for line in lines)
    return Shown(
        f"{len(samples):,} requests of {len(set(samples))} lengths, padded to at most {counts[-1]}",
        "outputs equal the unpadded ones; the optimal buckets equal the best of all choices, tried one by one",
        f"padding with {counts[-1]} buckets: {ends}",
        Picture(go.Figure(lines, layout), f"Padding by the number of buckets and strategy; with {counts[-1]}: {ends}."),
    )


SYSTEM = System(
    name="buckets",
    summary="sequence lengths padded to a few buckets, chosen from the lengths that were met",
    modules=("kernels.shapes.buckets", "kernels.shapes.bucketed"),
    make=Bucketed,
    proof="the unpadded model's outputs; the best of all choices of buckets, tried one by one",
    check=check,
    wrong={"the mask says that padding is real": WithoutMask, "nothing is padded": Unpadded},
    demo=demo,
    from_torch=("padding",),
    claims=(
        Claim(
            name="bucketing-3x",
            text="shape bucketing 3× at < 10 % padding",
            source="optimization framework, dynamic shapes",
            conditions="fewer than a tenth of the tokens are padding",
            verdict="partly",
            reason="against padding to the longest it is easily reached in tokens, and so little padding takes many buckets",
            evidence="exact on a CPU",
            experiment=padding,
        ),
    ),
)
