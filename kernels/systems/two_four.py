"""Two of four weights: the pattern is that of a sorting by hand, and training in float64 agrees step by step."""

import copy
import math
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import nn

from kernels.claims import Claim, Number
from kernels.figures import Picture
from kernels.measure import race
from kernels.precision import prune_2_4
from kernels.precision.replacing import replace_linears
from kernels.precision.two_four import TwoFourLinear
from kernels.system import Shown, System
from kernels.tolerance import compare


def pattern(weight: torch.Tensor) -> torch.Tensor:
    """The two of four that are kept, found by sorting each four in Python; of equals the first."""
    rows = []
    for row in weight.abs().tolist():
        kept: list[bool] = []
        for start in range(0, len(row), 4):
            four = row[start : start + 4]
            best = sorted((-size, place) for place, size in enumerate(four))[:2]
            kept += [(-size, place) in best for place, size in enumerate(four)]
        rows.append(kept)
    return torch.tensor(rows)


def check(make: Callable[[nn.Module], object], device: str) -> tuple[float, str | None]:
    """The two largest of four, also among equals and zeros; three steps of AdamW, with weight decay, against float64."""
    torch.manual_seed(0)
    linear = nn.Linear(64, 24)
    with torch.no_grad():
        linear.weight[3], linear.weight[5, 8:16] = 0.5, 0
        linear.weight[7, :4] = torch.tensor([-9.0, 1, 2, 3])
    mask = pattern(linear.weight.detach())
    twin = copy.deepcopy(linear).double()
    twin.weight.data *= mask
    baseline = copy.deepcopy(linear)
    baseline.weight.data *= mask
    model = nn.Sequential(linear).to(device)
    known = list(model.parameters())
    make(model)
    if any(one is not other for one, other in zip(model.parameters(), known, strict=True)):
        return math.inf, "the parameters are others, which an optimizer would not know"
    models = {"float64": nn.Sequential(twin), "float32": nn.Sequential(baseline), "here": model}
    steps = {name: torch.optim.AdamW(one.parameters(), lr=0.01, weight_decay=0.1) for name, one in models.items()}
    worst, eye = 0.0, torch.eye(64)
    for step in range(4):
        with torch.no_grad():
            bias = model(torch.zeros(1, 64, device=device)).cpu()
            kept = (model(eye.to(device)).cpu() - bias).t() != 0  # a row of the identity picks a column
        if (wrong := (kept & ~mask).sum()) or (step == 0 and not torch.equal(kept, mask & (twin.weight != 0))):
            return (
                math.inf,
                f"before step {step + 1}: {int(wrong)} weights are kept that are not the two largest of four",
            )
        x, target = torch.randn(16, 64), torch.randn(16, 24)
        outputs = {}
        for name, one in models.items():
            like = next(one.parameters())
            outputs[name] = one(x.to(like))
            steps[name].zero_grad()
            F.mse_loss(outputs[name], target.to(like)).backward()
            if name != "here":
                weight = one[0].get_parameter("weight")
                assert weight.grad is not None
                weight.grad *= mask
            elif (gradient := one[0].get_parameter("weight").grad) is None or gradient[~mask.to(device)].any():
                return math.inf, f"step {step + 1}: weights that are left out have a gradient"
            steps[name].step()
        got = outputs["here"].detach().cpu()
        ratio, failure = compare(got, outputs["float64"].detach(), outputs["float32"].detach(), torch.float32)
        if failure:
            return ratio, f"step {step + 1}: {failure}"
        worst = max(worst, ratio)
    again = nn.Sequential(nn.Linear(64, 24)).to(device)
    make(again)
    again.load_state_dict(model.state_dict())
    if not torch.equal(again(x.to(device)), model(x.to(device))):
        return math.inf, "a model that was pruned otherwise, with the state dict of this one, computes something else"
    return worst, None


def _once(mask_of: Callable[[torch.Tensor], torch.Tensor], kept: bool = True) -> Callable[[nn.Module], object]:
    """Prunes by another mask; with `kept` it stays while the model is trained."""

    def make(model: nn.Module) -> None:
        linear = model.get_submodule("0")
        assert isinstance(linear, nn.Linear)
        weight, mask = linear.weight, mask_of(linear.weight.detach())
        if not kept:
            weight.data *= mask
            return
        layer = TwoFourLinear(copy.deepcopy(linear))
        layer.mask, layer.weight = mask, weight
        weight.data *= mask
        setattr(model, "0", layer)

    return make


def _replaced(kind: type[TwoFourLinear]) -> Callable[[nn.Module], object]:
    return lambda model: replace_linears(model, kind)


class FullGradient(TwoFourLinear):
    """Lets the gradient of a weight that is left out through, as a straight-through estimator does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        masked = self.weight * self.mask
        return F.linear(x, self.weight + (masked - self.weight).detach(), self.bias)


class OwnBias(TwoFourLinear):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear)
        self.bias = nn.Parameter(linear.bias.detach().clone())


class UnsavedMask(TwoFourLinear):
    def __init__(self, linear: nn.Linear) -> None:
        super().__init__(linear)
        self.register_buffer("mask", self._buffers.pop("mask"), persistent=False)


def at_least_the_second(weight: torch.Tensor) -> torch.Tensor:
    size = weight.abs().unflatten(1, (-1, 4))
    return (size >= size.sort(-1).values[..., 2:3]).flatten(1)


def half_of_a_row(weight: torch.Tensor) -> torch.Tensor:
    return weight.abs().argsort(1, descending=True).argsort(1) < weight.shape[1] // 2


def speed(device: str) -> Mapping[str, Number]:
    """The forward of a linear layer, sparse against dense, in bfloat16; the weight is compressed before."""
    found: dict[str, Number] = {}
    same = torch.zeros(1)  # half the weights are another sum: the race compares `same`
    for rows, columns, batch in ((4096, 4096, 4096), (8192, 8192, 8192), (14336, 4096, 8192), (4096, 14336, 8192)):
        layer = TwoFourLinear(nn.Linear(columns, rows, bias=False, device=device, dtype=torch.bfloat16))
        x = torch.randn(batch, columns, device=device, dtype=torch.bfloat16)

        def product(weight: torch.Tensor, x: torch.Tensor = x) -> Callable[[], torch.Tensor]:
            def once() -> torch.Tensor:
                with torch.no_grad():
                    F.linear(x, weight)
                return same

            return once

        raced = race({"dense": product(layer.weight), "sparse": product(layer.compressed())}, device, 4)
        found[f"{batch} rows, weight {rows} × {columns}"] = raced.ratio("dense", "sparse")
    return found


def demo(device: str, quick: bool) -> Shown:
    import plotly.graph_objects as go

    torch.manual_seed(0)
    width = 64 if quick else 256
    model = nn.Sequential(nn.Linear(width, width)).to(device)
    before = model[0].get_parameter("weight").detach().clone()
    prune_2_4(model)
    after = model[0].get_parameter("weight").detach()
    lost = float((before - after).norm() / before.norm())
    corner = go.Heatmap(z=after[:16, :16].ne(0).int().tolist(), showscale=False)
    half = after.count_nonzero().item() / after.numel()
    said = f"{half:.0%} of the weights are left; what is gone has {lost:.2f} of the weights' norm"
    return Shown(
        f"a linear layer of {before.numel():,} weights, two of four of them 0, trained on with the pattern kept",
        "the two largest of each four are left, and three training steps equal float64's",
        said,
        Picture(go.Figure(corner), f"The corner of a pruned weight, two of each four in a row kept. {said}."),
    )


SYSTEM = System(
    name="two_four",
    summary="linear layers of which two of four weights are zero, by magnitude, and stay so in training",
    modules=("kernels.precision.two_four", "kernels.precision.replacing"),
    make=prune_2_4,
    proof="each four sorted in Python; outputs over three steps of AdamW in float64",
    check=check,
    wrong={
        "weights that are left out have a gradient": _replaced(FullGradient),
        "the bias is a copy": _replaced(OwnBias),
        "the mask is not saved": _replaced(UnsavedMask),
        "fours along the output features": _once(lambda weight: pattern(weight.t().cpu()).t().to(weight.device)),
        "the two smallest are kept": _once(lambda weight: ~pattern(weight.cpu()).to(weight.device)),
        "by value, not by magnitude": _once(lambda weight: pattern((weight - weight.min()).cpu()).to(weight.device)),
        "all that equal the second": _once(at_least_the_second),
        "half of a row": _once(half_of_a_row),
        "the gradient is not masked": _once(lambda weight: pattern(weight.cpu()).to(weight.device), kept=False),
    },
    demo=demo,
    from_torch=("the matrix product", "to_sparse_semi_structured and its kernel, on a GPU"),
    claims=(
        Claim(
            name="two-four-2x",
            text="2:4 sparsity 2×",
            source="optimization framework, ultra-low precision",
            conditions="none given",
            verdict="refuted",
            reason="tensor cores skip half of the products, but at no size measured does the library keep half of the gain",
            evidence="measured",
            experiment=speed,
            devices=("cuda",),
        ),
    ),
)
