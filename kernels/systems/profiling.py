"""A model's time, launches, bytes and FLOPs divided among its modules: against counts by hand, and against the whole."""

import copy
import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from kernels.claims import Claim, Number
from kernels.lens.pytorch.operators import operators
from kernels.machine import one_thread
from kernels.measure.profiling import Profile, profile_model
from kernels.measure.timing import CYCLES_PER_SECOND
from kernels.modules import TransformerBlock
from kernels.system import Shown, System, touched


class Busy(nn.Module):
    """Keeps the device busy for some milliseconds."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.is_cuda:
            torch.cuda._sleep(int(3e-3 * CYCLES_PER_SECOND))
        else:
            time.sleep(3e-3)
        return x


class Model(nn.Module):
    """With a layer that is called twice, one that is used by its weight alone, and operators of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.twice, self.unused, self.busy = nn.Linear(8, 8), nn.Linear(8, 4, bias=False), Busy()
        self.inner = nn.Sequential(nn.Linear(8, 16), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.busy(self.twice(self.twice(x)).mT.mT) + x
        return F.linear(x, self.unused.weight) * self.inner(x).sum()


# By module, for three rows of eight floats: calls, launches, bytes, FLOPs. A layer reads its input, weight and bias.
BY_HAND = {
    "": (1, 4, 4 * ((3 * 24) + (24 + 32 + 12) + (48 + 1) + (12 + 1 + 12)), 2 * 3 * 8 * 4),
    "twice": (2, 2, 2 * 4 * (24 + 64 + 8 + 24), 2 * 2 * 3 * 8 * 8),
    "unused": (0, 0, 0, 0),
    "busy": (1, 0, 0, 0),
    "inner": (1, 0, 0, 0),
    "inner.0": (1, 1, 4 * (24 + 128 + 16 + 48), 2 * 3 * 8 * 16),
    "inner.1": (1, 1, 4 * (48 + 48), 0),
}


def check(make: Callable[..., Profile], device: str) -> tuple[float, str | None]:
    """A small model against counts by hand, and its slow module; then a block, whose modules add up to the whole."""
    model, x = Model().to(device), torch.randn(3, 8, device=device)
    before = copy.deepcopy(model)
    found = make(model, x)
    if failure := touched(before, model):
        return math.inf, failure
    for name, expected in BY_HAND.items():
        one = found[name]
        if (got := (one.calls, one.launches, one.bytes, one.flops)) != expected:
            return math.inf, f"{name or 'the model'}: got {got}, expected {expected} calls, launches, bytes and FLOPs"
    if not 2 < found["busy"].ms < 30:
        return math.inf, f"the slow module takes {found['busy'].ms:.3g} ms, expected three or a little more"
    if found[""].ms > found["busy"].ms:
        return math.inf, "the model itself takes as long as the slow module in it"
    if any(module._forward_hooks or module._forward_pre_hooks for module in model.modules()):
        return math.inf, "hooks are left in the model"
    block, x = TransformerBlock(16, 2, level="native").to(device), torch.randn(2, 6, 16, device=device)
    found, whole = make(block, x), operators(block, x)
    if (found.total("launches"), found.total("bytes")) != (len(whole.calls), whole.moved):
        return math.inf, f"{found.total('launches')} launches in all, expected {len(whole.calls)}; or other bytes"
    tokens, attended = 2 * 6, 4 * 2 * 2 * 6 * 6 * 8  # attention: two products of six by six positions, two heads
    if (flops := found.total("flops")) != 2 * tokens * 12 * 16 * 16 + attended:
        return math.inf, f"{flops:,} FLOPs of a block, expected {2 * tokens * 12 * 16 * 16 + attended:,}"
    return 0.0, None


def _changed(change: Callable[[Any, Profile], dict[str, Any]]) -> Callable[..., Profile]:
    """A profile, each of whose modules is changed."""

    def profile(model: nn.Module, *args: Any) -> Profile:
        found = profile_model(model, *args)
        modules = tuple(dataclasses.replace(one, **change(one, found)) for one in found.modules)
        return dataclasses.replace(found, modules=modules)

    return profile


def _with_inner(one: Any, found: Profile, what: tuple[str, ...]) -> dict[str, Any]:
    prefix = one.name + "." if one.name else ""
    inner = [other for other in found.modules if other.name.startswith(prefix) or other is one]
    return {name: sum(getattr(other, name) for other in inner) for name in what}


def _leaves_alone(one: Any, found: Profile) -> dict[str, Any]:
    inner = any(other.name.startswith(one.name + ".") or not one.name for other in found.modules)
    return {"launches": 0, "bytes": 0, "flops": 0} if inner else {}


def hooks_stay(model: nn.Module, *args: Any) -> Profile:
    for module in model.modules():
        module.register_forward_hook(lambda module, args, output: None)
    return profile_model(model, *args)


def without_products(device: str) -> Mapping[str, Number]:
    """Of a block's forward, what its modules without a matrix product have: norms, activation and residuals. Attention is
    PyTorch's own, whose products its profiler counts."""
    tokens, dim, dtype = (8_192, 1_024, torch.bfloat16) if device == "cuda" else (512, 256, torch.float32)
    block = TransformerBlock(dim, 8).to(device, dtype).eval()
    x = torch.randn(1, tokens, dim, device=device, dtype=dtype)
    with one_thread():
        profiles = [profile_model(block, x) for _ in range(5)]
    found = {}
    for what, name in (("flops", "FLOPs"), ("bytes", "bytes"), ("ms", "time")):
        shares = [
            100 * sum(getattr(module, what) for module in profile.modules if not module.flops) / profile.total(what)
            for profile in profiles
        ]
        found[f"{name}, {tokens:,} × {dim:,}"] = Number.of(shares, "%")
    return found


def in_evaluation(model: nn.Module, *args: Any) -> Profile:
    return profile_model(model.eval(), *args)


def demo(device: str, quick: bool) -> Shown:
    dim, length = (64, 32) if quick else (256, 128)
    block = TransformerBlock(dim, 8).to(device).eval()
    found = profile_model(block, torch.randn(2, length, dim, device=device))
    longest = max(found.modules, key=lambda module: module.ms)
    most = max(found.modules, key=lambda module: module.flops)
    return Shown(
        f"a block of {len(found.modules)} modules: {found.total('launches')} launches, {found.total('flops'):,} FLOPs",
        "calls, launches, bytes and FLOPs of each module equal those counted by hand, and add up to the whole model’s",
        f"{longest.name} takes {longest.ms / found.total('ms'):.0%} of the time; {most.name} has "
        f"{most.flops / found.total('flops'):.0%} of the FLOPs and {most.ms / found.total('ms'):.0%} of the time",
        found.plot(),
    )


SYSTEM = System(
    name="profiling",
    summary="a model’s time, launches, bytes and FLOPs, module by module",
    modules=("kernels.measure.profiling",),
    make=profile_model,
    proof="counts by hand, a module of known length, and the operators of the whole model",
    check=check,
    wrong={
        "modules count those in them too": _changed(
            lambda one, found: _with_inner(one, found, ("launches", "bytes", "flops"))
        ),
        "the time of those in them too": _changed(lambda one, found: _with_inner(one, found, ("ms",))),
        "only innermost modules count": _changed(_leaves_alone),
        "a module that is called twice counts once": _changed(
            lambda one, found: {"flops": one.flops // max(one.calls, 1), "calls": min(one.calls, 1)}
        ),
        "hooks stay": hooks_stay,
        "the model is in evaluation afterwards": in_evaluation,
    },
    demo=demo,
    from_torch=("the FLOPs of each operator",),
    claims=(
        Claim(
            name="data-movement-bottleneck",
            text="We find that data movement is the key bottleneck when training",
            source="Ivanov et al., Data Movement Is All You Need (2021), abstract",
            conditions="training BERT on a V100; here, a block’s forward",
            verdict="partly",
            reason="modules without a product, of which FLOPs know nothing, move a third of the bytes or more; the products "
            "take most of the time of a forward all the same. A training step was not measured",
            evidence="measured",
            experiment=without_products,
        ),
    ),
)
