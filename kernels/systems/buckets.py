"""Shape bucketing: a bucketed model equals the unpadded one, and its buckets pad least."""

import itertools
import math
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
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
    """The least padding; outputs for every length, and the padding that the model met; what it counts."""
    samples = [3, 3, 5, 8, 8, 8, 13, 21, 21, 30]
    pads = {count: Buckets.fit(samples, count, multiple_of=1).padding(samples) for count in (1, 2, 3)}
    for count, padding in pads.items():  # every choice of so many lengths
        choices = itertools.combinations(sorted(set(samples)), count)
        least = min(Buckets(one).padding(samples) for one in choices if one[-1] == 30)
        if not math.isclose(padding, least):
            return math.inf, f"{count} buckets pad by {padding:.3g}, and the best choice by {least:.3g}"
    met: set[int] = set()
    padded: set[float] = set()

    def model(x: torch.Tensor, mask: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
        met.add(x.shape[1])
        padded.update(x[~mask].unique().tolist())
        return factor * attend(x, mask)

    bucketed = make(model, Buckets.fit(samples, 3, multiple_of=4), 7.0)
    for length in samples:
        x = torch.randn(2, length, 16, generator=torch.Generator().manual_seed(length)).to(device)
        expected = -attend(x, torch.ones(2, length, dtype=torch.bool, device=device))
        got = bucketed(x, factor=-1)
        if got.shape != expected.shape or not torch.allclose(got, expected, atol=1e-6):
            return math.inf, f"length {length}: the output differs from the unpadded one's"
    if not met <= set(bucketed.buckets.lengths):
        return math.inf, f"the model met the lengths {sorted(met)}"
    if padded != {7.0}:
        return math.inf, f"padding holds {sorted(padded)}, expected 7 alone"
    return counted(bucketed, samples, device)


def counted(bucketed: Bucketed, samples: list[int], device: str) -> tuple[float, str | None]:
    """What it says of the calls so far; then of more, from four threads at once; then its buckets for all of them."""
    tokens = sum(bucketed.buckets.of(length) for length in samples)
    wanted = {
        "calls": len(samples),
        "lengths": len(set(samples)),
        "buckets": len({bucketed.buckets.of(length) for length in samples}),
        "padding": tokens / sum(samples) - 1,
        "fewer": bucketed.buckets.lengths[-1] * len(samples) / tokens,
    }
    said = bucketed.report()
    if said.keys() != wanted.keys() or not all(math.isclose(said[name], value) for name, value in wanted.items()):
        return math.inf, f"the report is {said}, expected {wanted}"
    x = torch.zeros(1, 30, 16, device=device)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: bucketed(x), range(40)))
    if (calls := bucketed.report()["calls"]) != len(samples) + 40:
        return math.inf, f"{calls} calls are counted of {len(samples)} and 40 from four threads"
    best = Buckets.fit([*samples, *[30] * 40], 2, multiple_of=1)
    if bucketed.refit(count=2, multiple_of=1) != best or bucketed.buckets != best:
        return math.inf, f"the buckets for all calls are {bucketed.buckets.lengths}, expected {best.lengths}"
    if bucketed.report()["calls"] != calls:
        return math.inf, "new buckets forget the calls so far"
    return 0.0, None


class PadsWithZeros(Bucketed):
    def __init__(self, model: Any, buckets: Buckets, value: float = 0) -> None:
        super().__init__(model, buckets)


class DropsArguments(Bucketed):
    """Does not pass on what the model takes besides."""

    def __call__(self, x: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        return super().__call__(x)


class PartOfAll(Bucketed):
    """Reports padding as a part of all tokens, padded ones among them."""

    def report(self) -> dict[str, float]:
        said = super().report()
        return said | {"padding": said["padding"] / (1 + said["padding"])}


class ForgetsCalls(Bucketed):
    def refit(self, **options: Any) -> Buckets:
        buckets = super().refit(**options)
        self._seen.clear()
        return buckets


class CountsUnlocked(Bucketed):
    """Another thread's count may come between reading and writing."""

    def __call__(self, x: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        before = self._seen[x.shape[1]]
        y = super().__call__(x, **kwargs)
        time.sleep(1e-3)
        self._seen[x.shape[1]] = before + 1
        return y


class WithoutMask(Bucketed):
    def __call__(self, x: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        model, self.model = self.model, lambda x, mask, **others: model(x, mask=torch.ones_like(mask), **others)
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
        found[f"padding, {count} buckets"] = Number.exact(100 * padded, "%")
        found[f"tokens saved, {count} buckets"] = Number.exact(fewer, "×")
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
    proof="the unpadded model's outputs; the best of all choices of buckets, tried one by one; calls from four threads",
    check=check,
    wrong={
        "the mask says that padding is real": WithoutMask,
        "nothing is padded": Unpadded,
        "it pads with zeros, whatever was asked": PadsWithZeros,
        "the model’s other arguments are dropped": DropsArguments,
        "padding is a part of all tokens": PartOfAll,
        "new buckets forget the calls so far": ForgetsCalls,
        "threads count over each other": CountsUnlocked,
    },
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
