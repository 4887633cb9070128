"""One module at the levels that there are: what is right is timed, and what is not has its reason."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from kernels.claims import Claim, Number
from kernels.measure.levels import Levels, levels
from kernels.modules import LayerNorm, TransformerBlock, swap
from kernels.system import Shown, System


class Branching(nn.Module):
    """Does what its input's first value says, which tracing keeps as it met it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x[0, 0] > 0):
            return x.sin()
        return x.cos()


class Unscriptable(nn.Module):
    """With a keyword that TorchScript does not know."""

    def forward(self, x: torch.Tensor, **options: Any) -> torch.Tensor:
        return x.sin()


class OtherWhenCopied(nn.LayerNorm):
    """Forgets its bias once it is traced or scripted."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = super().forward(x)
        return y - self.bias if torch.jit.is_tracing() else y


def check(make: Callable[..., Levels], device: str) -> tuple[float, str | None]:
    """Modules of which it is known what works: a norm, a branch, one that cannot be scripted, one that tracing changes."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)).to(device)
    x = torch.randn(4, 8, device=device)
    x[0, 0], x[-1, -1] = 1, -1
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = make(model, x)
    if {*found.times} | {*found.left} != {"eager", "traced", "scripted", "triton", "cuda"}:
        return math.inf, f"{', '.join([*found.times, *found.left])} are timed or left"
    if device == "cuda" and len(found.times) < 5 or not {"eager", "traced", "scripted"} <= {*found.times}:
        return math.inf, f"{', '.join(found.left)} are left: {found.left}"
    ran = {"eager", "traced", "scripted", "triton", "cuda"}
    if device == "cpu" and torch.cuda.is_available():
        ran.remove("triton")  # compiled there, it takes no tensors of a CPU
    if {*found.errors} != ran or max(found.errors.values()) > 1:
        return math.inf, f"errors of a norm at all levels: {found.errors}"
    if type(model[1]) is not nn.LayerNorm or any(not torch.equal(before[n], v) for n, v in model.state_dict().items()):
        return math.inf, "the module itself was changed"
    left = {"traced": Branching(), "scripted": Unscriptable(), "triton": Branching()}
    for name, module in left.items():
        found = make(module, x)
        if name in found.times or not found.left.get(name):
            return math.inf, f"{type(module).__name__} {name} has a time, or no reason why it has none"
    other = OtherWhenCopied(8).to(device)
    nn.init.normal_(other.bias)
    found = make(other, x)
    if "traced" in found.times or found.errors.get("traced", 0) <= 1:
        return math.inf, f"a module that tracing changes passes: {found.errors}"
    try:
        make(nn.Dropout(), x)
    except ValueError:
        return 0.0, None
    return math.inf, "dropout is not noticed, so that all levels seem to be wrong"


def with_one_case(module: nn.Module, *args: Any, compile: bool = False) -> Levels:
    with patch("kernels.measure.levels._reversed", lambda one: one):
        return levels(module, *args, compile=compile)


def nothing_compared(module: nn.Module, *args: Any, compile: bool = False) -> Levels:
    with patch("kernels.measure.levels._compared", lambda *of: (0.0, None)):
        return levels(module, *args, compile=compile)


def in_place(module: nn.Module, *args: Any, compile: bool = False) -> Levels:
    found = levels(module, *args, compile=compile)
    swap(module, level="native")
    return found


def without_reasons(module: nn.Module, *args: Any, compile: bool = False) -> Levels:
    return dataclasses.replace(levels(module, *args, compile=compile), left={})


def swapped_with_another_eps(module: nn.Module, *args: Any, compile: bool = False) -> Levels:
    class Other(LayerNorm):
        def __init__(self, shape: Any, eps: float = 1e-5, *others: Any, **more: Any) -> None:
            super().__init__(shape, 0.1, *others, **more)

    with patch("kernels.modules.swap.LayerNorm", Other):
        return levels(module, *args, compile=compile)


def on_a_cpu(device: str) -> Mapping[str, Number]:
    """A block as it is, over what both compilers make of it, by one thread of a CPU."""
    batch, length, dim = 4, 128, 512
    block = TransformerBlock(dim, 8, level="native").to(device).eval()
    run = levels(block, torch.randn(batch, length, dim, device=device), compile=True)
    sizes = f"{batch} × {length} × {dim}"
    return {f"{name}, {sizes}": run.ratio("eager", name) for name in ("traced", "compiled") if name in run.times}


def demo(device: str, quick: bool) -> Shown:
    dim, length = (64, 16) if quick else (256, 64)
    run = levels(TransformerBlock(dim, 8).to(device).eval(), torch.randn(2, length, dim, device=device))
    ratios = ", ".join(f"{name} {run.ratio('eager', name).median:.2f}×" for name in run.times if name != "eager")
    return Shown(
        f"a block, {', '.join(run.times)}; left: {'; '.join(f'{name}: {why}' for name, why in run.left.items())}",
        f"all that ran are right, with at most {max(run.errors.values()):.2f} of the error that is allowed; a branch that "
        "tracing loses and a swap with another eps get no time",
        f"over eager: {ratios}",
        run.plot(),
    )


SYSTEM = System(
    name="levels",
    summary="one module at every level that it can be brought to, with times, errors and reasons",
    modules=("kernels.measure.levels",),
    make=levels,
    proof="the module in float64, on two inputs; and modules of which it is known what cannot be done",
    check=check,
    wrong={
        "one input alone": with_one_case,
        "nothing is compared": nothing_compared,
        "the module itself is swapped": in_place,
        "no reasons": without_reasons,
        "norms get another eps": swapped_with_another_eps,
    },
    demo=demo,
    from_torch=("torch.jit.trace", "torch.jit.script", "torch.compile"),
    claims=(
        Claim(
            name="cpu-1.15x",
            text="CPU 1.15×",
            source="direct CUDA fusion collection",
            conditions="none given",
            verdict="refuted",
            reason="a block, traced or compiled, is as fast as it was, within the spread; what was timed for the claim is "
            "not said",
            evidence="measured",
            experiment=on_a_cpu,
            devices=("cpu",),
        ),
    ),
)
