"""Mixture of experts: sorted and grouped, proved against a loop over tokens and experts."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from kernels.claims import Claim, Number
from kernels.figures import Picture
from kernels.lens.pytorch.operators import Operators, operators
from kernels.measure import Race, race
from kernels.moe import MixtureOfExperts
from kernels.moe.naive import NaiveMixture
from kernels.records import ModelRecord, check_model
from kernels.system import Shown, System

Shape = tuple[int, int, int, int, int | None]
# dim, experts, top_k, hidden, capacity; 11 tokens, so that some experts get none
SHAPES: tuple[Shape, ...] = (
    (8, 4, 2, 16, None),
    (8, 16, 1, 12, None),
    (6, 5, 3, 10, None),
    (8, 4, 2, 16, 3),
    (8, 3, 3, 8, None),
)


def check(make: type[MixtureOfExperts], device: str) -> tuple[float, str | None]:
    """Outputs, the loss and all gradients; random tokens, and tokens that are all the same, so that most experts get none."""
    worst = 0.0
    cases = [(shape, same, None) for shape in SHAPES for same in (False, True)]
    for shape, same, method in [*cases, (SHAPES[0], False, "loop")]:
        make_one, twin = partial(built, make, shape, method), partial(built, NaiveMixture, shape, None)
        record = ModelRecord("moe", make_one, twin, batch(shape, same), (), {})
        ratio, failure = check_model(record, record.build, device=device)
        if failure:
            return ratio, f"{shape}, {'equal' if same else 'random'} tokens, {method or 'default'}: {failure}"
        worst = max(worst, ratio)
    return worst, None


def built(kind: type[MixtureOfExperts], shape: Shape, method: str | None, seed: int) -> MixtureOfExperts:
    dim, experts, top_k, hidden, capacity = shape
    torch.manual_seed(0)
    return kind(dim, experts, top_k, hidden, capacity, method)


def batch(shape: Shape, same: bool) -> Any:
    drawn = torch.Generator().manual_seed(0)
    x = torch.randn(1, 11, shape[0], generator=drawn)
    return lambda seed: ((x[:, :1].expand_as(x) if same else x).contiguous(),)


class WeightsNotDivided(MixtureOfExperts):
    """Keeps the weights of the softmax over all experts."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.router.register_forward_hook(self._whole)

    @staticmethod
    def _whole(router, inputs, outputs):
        weights, chosen, loss = outputs
        return router.gate(inputs[0]).softmax(-1).gather(-1, chosen), chosen, loss


class NotPutBack(MixtureOfExperts):
    """Leaves the rows in the order of the experts."""

    def order(self, chosen):
        self.sorted = super().order(chosen)
        return self.sorted

    def forward(self, x):
        y, loss = super().forward(x)
        if self.capacity is None:
            y = y.flatten(0, -2)[self.sorted[:: self.router.top_k] // self.router.top_k].view(x.shape)
        return y, loss


class SkipsEmpty(MixtureOfExperts):
    """Leaves empty experts out of the counts, and so gives the rows of the next to them."""

    def compute(self, rows, counts):
        there = counts[counts > 0]
        return super().compute(rows, F.pad(there, (0, len(counts) - len(there))))


class LastComeFirst(MixtureOfExperts):
    """Where the capacity is reached, drops the first tokens."""

    def order(self, chosen):
        last = chosen.numel() - 1
        return last - super().order(chosen.flip(0, 1))


class LossOfTheFirst(MixtureOfExperts):
    """Counts as load where the first choice went, also where there are several."""

    def forward(self, x):
        y, _ = super().forward(x)
        shares = self.router.gate(x.reshape(-1, x.shape[-1])).softmax(-1)
        load = torch.bincount(shares.argmax(-1), minlength=shares.shape[1]).to(shares) / len(shares)
        return y, self.router.experts * (load * shares.mean(0)).sum()


class DetachedGate(MixtureOfExperts):
    """Weights without a gradient: the router learns from the balance alone."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.router.register_forward_hook(lambda router, inputs, out: (out[0].detach(), *out[1:]))


class WeightsSwapped(MixtureOfExperts):
    """Gives the weight of a token's first expert to its last."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.router.register_forward_hook(lambda router, inputs, out: (out[0].flip(1), *out[1:]))


def asked(method: str, experts: int, tokens: int, dim: int) -> Operators:
    """The operators of a forward, in bfloat16, the same on a GPU; two experts a token."""
    torch.manual_seed(0)
    model = MixtureOfExperts(dim, experts, 2, method=method).to(torch.bfloat16)
    return operators(model, torch.randn(tokens, dim, dtype=torch.bfloat16))


def flops(experts: int, tokens: int, dim: int) -> int:
    """Of the products of a forward, router and experts, one expert a token: counted as they run."""
    torch.manual_seed(0)
    model = MixtureOfExperts(dim, experts, 1, method="loop")
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(torch.randn(tokens, dim))
    return counter.get_total_flops()


def constant_cost(device: str) -> Mapping[str, Number]:
    """Parameters and FLOPs of 64 experts over those of 4; 512 tokens, 256 features."""
    few, many = (sum(one.numel() for one in MixtureOfExperts(256, count, 1).parameters()) for count in (4, 64))
    work = flops(64, 512, 256) / flops(4, 512, 256)
    return {"parameters": Number.exact(many / few, "×"), "FLOPs": Number.exact(work, "×")}


def dropless(device: str) -> Mapping[str, Number]:
    """What capacities drop and pad, and what one product for all saves; 4,096 tokens, two of 64 experts each."""
    torch.manual_seed(0)
    model, x = MixtureOfExperts(64, 64), torch.randn(4_096, 64)
    chosen = model.router(x)[1]
    counts = torch.bincount(chosen.flatten(), minlength=64)
    found = {"dropped, no capacity": Number.exact(100 * (1 - len(model.order(chosen)) / chosen.numel()), "%")}
    for factor in (1, 2):
        model.capacity = factor * chosen.numel() // 64
        found[f"dropped, capacity {factor} × even"] = Number.exact(
            100 * (1 - len(model.order(chosen)) / chosen.numel()), "%"
        )
    found["padding, none dropped"] = Number.exact(100 * (64 * int(counts.max()) / chosen.numel() - 1), "%")
    for experts in (8, 64):
        for method in ("loop", "grouped"):
            found[f"launches, {method}, {experts} experts"] = Number.exact(
                len(asked(method, experts, 512, 64).calls), "operators"
            )
    if device == "cuda":
        run = raced(device, 16_384, 1_024, 64)
        found["time, 64 experts"] = run.ratio("an expert at a time", "grouped")
    return found


@torch.no_grad()
def raced(device: str, tokens: int, dim: int, experts: int, rounds: int = 6) -> Race:
    """One grouped product against one for each expert: two of `experts` a token, bfloat16 on a GPU."""
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    grouped, loop = (MixtureOfExperts(dim, experts, 2, method=one).to(device, dtype) for one in ("grouped", "loop"))
    loop.load_state_dict(grouped.state_dict())
    x = torch.randn(tokens, dim, device=device, dtype=dtype)
    return race({"an expert at a time": lambda: loop(x)[0], "grouped": lambda: grouped(x)[0]}, device, rounds)


def demo(device: str, quick: bool) -> Shown:
    import plotly.graph_objects as go

    tokens, experts = (64, 8) if quick else (128, 16)
    timed = raced(device, tokens, 64, experts, 2)
    model, x = MixtureOfExperts(64, experts).to(device), torch.randn(tokens, 64, device=device)
    _, chosen, loss = model.router(x)
    counts = torch.bincount(chosen.flatten(), minlength=experts).tolist()
    ways = {name: len(asked(name, experts, tokens, 64).calls) for name in ("loop", "grouped")}
    counted = ", ".join(f"{name} {count}" for name, count in ways.items())
    faster = timed.ratio("an expert at a time", "grouped").median
    figure = go.Figure(go.Bar(y=counts), {"xaxis": {"title": "expert"}, "yaxis": {"title": "tokens"}})
    return Shown(
        f"{tokens} tokens, each sent to 2 of {experts} experts: sorted, one grouped product, back to their places",
        "outputs, balance loss and all gradients equal a loop over tokens and experts; empty experts too",
        f"operators of a forward, {counted}; grouped is {faster:.1f} times as fast as an expert at a time; "
        f"the fullest expert has {max(counts)} tokens, the emptiest {min(counts)}, the balance loss is {loss.item():.2f}",
        Picture(figure, f"Tokens of each of {experts} experts, between {min(counts)} and {max(counts)}."),
    )


SYSTEM = System(
    name="moe",
    summary="a mixture of experts: router, balance loss, capacity, and one grouped product for all experts",
    modules=("kernels.moe.router", "kernels.moe.experts"),
    make=MixtureOfExperts,
    proof="a loop over tokens and experts in float64: outputs, balance loss, gradients; empty experts, dropped tokens",
    check=check,
    wrong={
        "weights are not divided by their sum": WeightsNotDivided,
        "rows stay in the order of the experts": NotPutBack,
        "empty experts are left out of the counts": SkipsEmpty,
        "a full expert drops the first tokens": LastComeFirst,
        "the balance counts first choices alone": LossOfTheFirst,
        "the weights have no gradient": DetachedGate,
        "weights go to another of the token’s experts": WeightsSwapped,
    },
    demo=demo,
    from_torch=("grouped_mm", "sorting, gathering and adding rows"),
    claims=(
        Claim(
            name="moe-constant-cost",
            text="a sparsely-activated model – with outrageous numbers of parameters – but a constant computational cost",
            source="Fedus et al., Switch Transformers (2022), abstract",
            conditions="one expert a token",
            verdict="confirmed",
            reason="the experts’ FLOPs stay the same, and only the router’s grow; but a batch reads more experts’ weights",
            evidence="exact on a CPU",
            experiment=constant_cost,
            devices=("cpu",),
        ),
        Claim(
            name="moe-dropless",
            text="Our approach never drops tokens and maps efficiently to modern hardware",
            source="Gale et al., MegaBlocks (2022), abstract",
            conditions="none given",
            verdict="partly",
            reason="of sorting and one grouped product, as built here: nothing is dropped or padded, and launches do not grow "
            "with the experts; it is faster than a loop over them, and no other implementation was beside it",
            evidence="measured",
            experiment=dropless,
        ),
    ),
)
