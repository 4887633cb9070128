"""Bits for each layer: held against every allocation that there is, and judged by what a trained model predicts."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any

import torch
from torch import nn

from kernels.claims import Claim, Number
from kernels.figures import Picture
from kernels.models import corpus, judged, pretrained
from kernels.precision import allocate_bits, allocation
from kernels.precision.evenly import SHARES
from kernels.system import Shown, System
from kernels.systems.bit_allocation import wrong

Losses = dict[tuple[str, float], list[float]]
Allocate = Callable[[nn.Module, torch.Tensor, float, str], dict[str, int]]
LAYERS, WIDTHS = ("0", "2", "4", "6"), (2, 3, 4, 5, 6, 7, 8)
MEANS = (3.5, 4.4)
"""Bits of a weight, on average, that the check asks for."""
SLACK = 1.15
"""Times the least cost: bits are given one by one, and labels are drawn for "fisher" where here each has its probability."""


def small() -> tuple[nn.Sequential, torch.Tensor]:
    """Layers of several sizes and scales, an outlier and groups of zeros, and inputs for them."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(40, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 8)
    )
    with torch.no_grad():
        for layer, scale in zip(linears(model), (8, 0.2, 1, 2), strict=True):
            layer.weight *= scale
        linears(model)[1].weight[0, 0] = 4
        linears(model)[2].weight[3:6] = 0
    return model, torch.randn(16, 40)


def linears(model: nn.Sequential) -> list[nn.Linear]:
    return [layer for layer in model if isinstance(layer, nn.Linear)]


def nearest(weight: torch.Tensor, bits: int) -> torch.Tensor:
    """Each group of 32 in the range that fits best, looked up in a list of the values that there are; float64."""
    most, columns = 2 ** (bits - 1) - 1, []
    for start in range(0, weight.shape[1], 32):
        group = weight[:, start : start + 32].double()
        tried = []
        for share in SHARES:
            values = torch.arange(-most, most + 1) * (share * group.abs().amax(1, keepdim=True) / most)
            picked = (group[:, :, None] - values[:, None]).abs().argmin(2)
            tried.append(values.gather(1, picked))
        every = torch.stack(tried)
        best = (every - group).square().sum(2).argmin(0)
        columns.append(every[best, torch.arange(len(weight))])
    return torch.cat(columns, 1)


def expected_fisher(model: nn.Sequential, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Every squared gradient of every label's log-likelihood, times its probability; float64."""
    model = copy.deepcopy(model).double()
    weights = [layer.weight for layer in linears(model)]
    found = [torch.zeros_like(weight) for weight in weights]
    for row in x.double():
        for one in model(row).log_softmax(-1):
            gradients = torch.autograd.grad(one, weights, retain_graph=True)
            share = one.detach().exp()
            found = [total + share * gradient**2 for total, gradient in zip(found, gradients, strict=True)]
    return dict(zip(LAYERS, found, strict=True))


@cache
def costs(by: str) -> dict[str, list[float]]:
    """By layer, for each of WIDTHS."""
    model, x = small()
    weights = {name: model.get_submodule(name).get_parameter("weight").detach() for name in LAYERS}
    if by in ("error", "fisher"):
        matters: Any = expected_fisher(model, x) if by == "fisher" else dict.fromkeys(LAYERS, 1)
        return {
            name: [float(((nearest(weight, width) - weight) ** 2 * matters[name]).sum()) for width in WIDTHS]
            for name, weight in weights.items()
        }
    entropies = dict.fromkeys(weights, 0.0)
    if by == "entropy":
        for name, weight in weights.items():
            low, high = float(weight.min()), float(weight.max())
            bins = ((weight.double() - low) / (high - low) * 256).floor().clamp(max=255).long().flatten()
            shares = [count / len(bins) for count in torch.bincount(bins).tolist() if count]
            entropies[name] = -sum(share * math.log2(share) for share in shares)
    return {name: [w.numel() * 4 ** (entropies[name] - width) for width in WIDTHS] for name, w in weights.items()}


@cache
def least(by: str, bits: float) -> float:
    """The least cost of all allocations that have no more bits than that on average."""
    of, sizes = list(costs(by).values()), [layer.weight.numel() for layer in linears(small()[0])]
    return min(
        sum(one[WIDTHS.index(width)] for one, width in zip(of, widths, strict=True))
        for widths in product(WIDTHS, repeat=len(of))
        if sum(size * width for size, width in zip(sizes, widths, strict=True)) <= bits * sum(sizes)
    )


def check(make: Allocate, device: str) -> tuple[float, str | None]:
    """For every way to allocate: no more bits than asked, nearly the least cost of all allocations, and every weight rounded
    to the nearest value."""
    for by, bits in product(allocation.WAYS, MEANS):
        model, x = small()
        before = {name: model.get_submodule(name).get_parameter("weight").detach().clone() for name in LAYERS}
        given = make(model.to(device), x.to(device), bits, by)
        if given.keys() != before.keys():
            return math.inf, f"{by}: {', '.join(given)} have bits, expected {', '.join(before)}"
        had = sum(before[name].numel() * width for name, width in given.items())
        allowed = bits * sum(weight.numel() for weight in before.values())
        if had > allowed:
            return math.inf, f"{by}: {had} bits for all weights together, expected {allowed:.0f} at most"
        cost = sum(costs(by)[name][WIDTHS.index(width)] for name, width in given.items())
        if cost > SLACK * least(by, bits):
            return math.inf, f"{by}: {given} costs {cost / least(by, bits):.2f} times what the best allocation does"
        for name, width in given.items():
            got, expected = model.get_submodule(name).get_parameter("weight").cpu(), nearest(before[name], width)
            if not torch.allclose(got.double(), expected, rtol=1e-5, atol=0):
                return math.inf, f"{by}, layer {name}: weights differ from the nearest of {width} bits"
    return 0.0, None


def losses(ways: Sequence[str], means: Sequence[float], batch: torch.Tensor, held: torch.Tensor, device: str) -> Losses:
    """Bits a character that the trained language model loses on each piece of held-back text, by way and mean."""
    trained = pretrained().to(device)

    def of(model: nn.Module) -> list[float]:
        return [judged.bits(model, piece[None], 512, device) for piece in held]

    best, found = of(trained), {}
    for way, mean in product(ways, means):
        model = copy.deepcopy(trained)
        allocate_bits(model, batch.to(device), mean, way)
        found[way, mean] = [more - least for more, least in zip(of(model), best, strict=True)]
    return found


def calibration(rows: int, length: int) -> torch.Tensor:
    """Characters that the model was trained on, from places that are spread evenly, (rows, length)."""
    train, _ = corpus.split()
    return torch.stack(
        [train[start : start + length] for start in range(0, len(train) - length, len(train) // rows)][:rows]
    )


def quality(device: str) -> Mapping[str, Number]:
    """What uniform bits lose, and how much less the other ways do, at equal mean bits; over six pieces of text."""
    _, held = corpus.split()
    means = (3, 3.5, 4)
    lost = losses(allocation.WAYS, means, calibration(16, 128), held[:, :1537], device)
    found = {}
    for way, mean in product(allocation.WAYS, means):
        of, unit = lost[way, mean], "bits a character"
        if way != "uniform":
            of = [100 * (1 - one / other) for one, other in zip(of, lost["uniform", mean], strict=True)]
            unit = "% less lost than uniform"
        found[f"{way}, {mean} bits"] = Number.of(of, unit)
    return found


def demo(device: str, quick: bool) -> Shown:
    import plotly.graph_objects as go

    ways = ("uniform", "fisher") if quick else allocation.WAYS
    _, held = corpus.split()
    found = losses(ways, (3.5,), calibration(4 if quick else 8, 128), held[:, :513], device)
    lost = {way: sum(of) / len(of) for (way, _), of in found.items()}
    said = ", ".join(f"{way} {one:.3f}" for way, one in lost.items())
    axis = {"title": "bits a character that are lost"}
    return Shown(
        "the trained language model with 3.5 bits a weight on average, given to its layers in "
        f"{len(lost)} ways, and rounded",
        "each way costs nearly the least that any allocation of as many bits does, all tried, on a small model",
        f"lost on text held back, in bits a character: {said}",
        Picture(go.Figure(go.Bar(x=list(lost), y=list(lost.values())), {"yaxis": axis}), f"Lost by each way: {said}."),
    )


SYSTEM = System(
    name="bit_allocation",
    summary="bits for each layer's weights, at an equal mean: uniform, by entropy, by error, by Fisher information",
    modules=("kernels.precision.allocation", "kernels.precision.evenly"),
    make=allocate_bits,
    proof="the best of all allocations, tried one by one; values looked up in float64; the Fisher information of every label",
    check=check,
    wrong={
        "the mean is over layers, not weights": wrong.with_part("cheapest", wrong.by_layers),
        "a bit of a large layer is no dearer": wrong.with_part("cheapest", wrong.by_totals),
        "gradients are not squared": wrong.with_part("fisher", wrong.not_squared),
        "labels are the likeliest, not drawn": wrong.with_part("fisher", wrong.likeliest_labels),
        "nothing is clipped": wrong.with_part("evenly", wrong.clipped_nowhere),
        "rounded toward zero": wrong.with_part("evenly", wrong.toward_zero),
        "every way is uniform": lambda model, batch, bits, by: allocate_bits(model, batch, bits, "uniform"),
    },
    demo=demo,
    from_torch=("autograd’s gradients", "the matrix products"),
    claims=(
        Claim(
            name="adaptive-precision-30-percent",
            text="adaptive precision +30 % quality",
            source="optimization framework, ultra-low precision",
            conditions="bits by the entropy of a layer's weights; none given of model, baseline or measure",
            verdict="partly",
            reason="by entropy far more is lost than with uniform bits; by error or Fisher information less, where the mean "
            "lies between whole numbers; with few bits Fisher information loses more",
            evidence="measured",
            experiment=quality,
        ),
    ),
)
