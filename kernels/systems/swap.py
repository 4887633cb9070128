"""A model's modules replaced by the course's: it computes the same, and what was left is named with its reason."""

import copy
import math
from collections.abc import Callable, Mapping

import torch
from torch import nn

from kernels.claims import Claim, Number
from kernels.measure import race
from kernels.modules import LayerNorm, Swapped, swap
from kernels.system import Shown, System


class Model(nn.Module):
    """With a norm that two places share, one in a container, one without a bias, and one with a hook; one weight is frozen."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.first = self.again = nn.LayerNorm(dim)
        self.first.weight.requires_grad_(False)
        self.inner = nn.Sequential(nn.Linear(dim, dim), nn.LayerNorm(dim, bias=False), nn.GELU())
        self.hooked = nn.LayerNorm(dim)
        self.hooked.register_forward_hook(lambda module, args, output: 2 * output)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.hooked(self.again(self.inner(self.first(x))))


def check(make: Callable[..., Swapped], device: str) -> tuple[float, str | None]:
    """Outputs, gradients and state dict as before, at two levels; and each leaf either replaced or given a reason."""
    torch.manual_seed(0)
    before = Model(12).to(device).eval()
    for parameter in before.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(3, 12, device=device)
    for level in ("native", "compiled") if device == "cuda" else ("native", "cuda"):
        model = copy.deepcopy(before)
        parameters = dict(model.named_parameters())
        done = make(model, level=level)
        if any(parameters[name] is not parameter for name, parameter in model.named_parameters()):
            return math.inf, f"{level}: the parameters are others, which an optimizer would not know"
        if any(module.training for module in model.modules()) or model.first.weight.requires_grad:
            return math.inf, f"{level}: what was evaluated or frozen is to be trained"
        trained = [[one for one in of.parameters() if one.requires_grad] for of in (before, model)]
        results = [
            torch.autograd.grad(one(x).square().sum(), of) for one, of in zip((before, model), trained, strict=True)
        ]
        if not all(torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in zip(*results, strict=True)):
            return math.inf, f"{level}: other gradients than before"
        if not torch.allclose(model(x), before(x), atol=1e-4):
            return math.inf, f"{level}: another output than before"
        leaves = {name for name, one in before.named_modules() if not list(one.children())}
        if leaves != {*done.replaced, *done.left} or not all(done.left.values()):
            return math.inf, f"{level}: {', '.join(sorted(leaves ^ {*done.replaced, *done.left}))} is in neither list"
        if not isinstance(model.inner[1], LayerNorm) or isinstance(model.hooked, LayerNorm):
            return math.inf, f"{level}: a norm with a hook is to be left, and the others are to be replaced"
        if model.inner[1].level != level:
            return math.inf, f"{level}: a norm computes at level {model.inner[1].level}"
    return 0.0, None


def with_new_parameters(model: nn.Module, level: int | str | None = None) -> Swapped:
    done = swap(model, level)
    for module in model.modules():
        if isinstance(module, LayerNorm):
            module.weight = nn.Parameter(module.weight.detach().clone())
    return done


def without_its_eps(model: nn.Module, level: int | str | None = None) -> Swapped:
    done = swap(model, level)
    for module in model.modules():
        if isinstance(module, LayerNorm):
            module.eps = 0.1
    return done


def thawed(model: nn.Module, level: int | str | None = None) -> Swapped:
    done = swap(model, level)
    model.requires_grad_()
    return done


def in_training(model: nn.Module, level: int | str | None = None) -> Swapped:
    done = swap(model, level)
    model.train()
    return done


def whatever_level(model: nn.Module, level: int | str | None = None) -> Swapped:
    return swap(model)


def hooks_forgotten(model: nn.Module, level: int | str | None = None) -> Swapped:
    for module in model.modules():
        module._forward_hooks.clear()
    return swap(model, level)


@torch.no_grad()
def norms(device: str) -> Mapping[str, Number]:
    """A layer norm of PyTorch operators, and PyTorch's own, over this course's at levels 4 and 5."""
    found = {}
    for rows, dim in ((512, 512), (32_768, 4_096)) if device == "cuda" else ((512, 512),):
        x = torch.randn(rows, dim, device=device)
        makers = {"written out": "native", "Triton": "triton", "CUDA C": "cuda"} if device == "cuda" else {}
        modules: dict[str, nn.Module] = {name: LayerNorm(dim, level=level) for name, level in makers.items()}
        modules |= {"PyTorch's own": nn.LayerNorm(dim)}
        modules |= {} if device == "cuda" else {"written out": LayerNorm(dim, level="native")}
        calls = {name: _call(one.to(device), x) for name, one in modules.items()}
        run = race(calls, device)
        best = "Triton" if device == "cuda" else "PyTorch's own"
        for name in set(calls) - {best}:
            found[f"{name} over {best}, {rows} × {dim}"] = run.ratio(name, best)
    return dict(sorted(found.items()))


def _call(module: nn.Module, x: torch.Tensor) -> Callable[[], torch.Tensor]:
    return torch.no_grad()(lambda: module(x))


def demo(device: str, quick: bool) -> Shown:
    model = nn.TransformerEncoderLayer(64, 4, dim_feedforward=128, batch_first=True).to(device).eval()
    x = torch.randn(2, 16, 64, device=device)
    before = model(x)
    done = swap(model, level="native")
    worst = (model(x) - before).abs().max().item()
    left = "; ".join(f"{name}: {reason}" for name, reason in done.left.items())
    return Shown(
        f"PyTorch's encoder layer: {', '.join(done.replaced)} replaced; {left}",
        "outputs, gradients and parameters are those of before, and each module is replaced or has its reason",
        f"largest difference of the output {worst:.1e}",
    )


SYSTEM = System(
    name="swap",
    summary="the course’s modules in place of a model’s own, with what was left and why",
    modules=("kernels.modules.swap", "kernels.modules.norms"),
    make=swap,
    proof="the model as it was: outputs, gradients, the parameters themselves",
    check=check,
    wrong={
        "new parameters": with_new_parameters,
        "another eps": without_its_eps,
        "hooks are forgotten": hooks_forgotten,
        "frozen weights are to be trained": thawed,
        "new modules are in training": in_training,
        "the level is not passed on": whatever_level,
    },
    demo=demo,
    from_torch=("every module that is left, such as linear layers",),
    claims=(
        Claim(
            name="layer-norm-3x",
            text="layer norm 3.0×",
            source="five-level project",
            conditions="4 × 128 × 512, on an A100",
            verdict="partly",
            reason="operators a step are slower by more than that, PyTorch's own layer norm by much less, and CUDA C is not "
            "faster than Triton",
            evidence="measured",
            experiment=norms,
        ),
    ),
)
