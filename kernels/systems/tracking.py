"""Memory by kind over a training step: the bookkeeping, without memory, against a step that is really taken."""

import copy
import math
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from kernels.claims import Claim, Number
from kernels.memory.tracking import Moment, Peak, track
from kernels.models import LanguageModel
from kernels.system import Shown, System, touched


class Counted(TorchDispatchMode):
    """Keeps which storages live, and of what kind: what an operator returns that was not there is new, and what is dropped
    goes. On a CPU; a gradient is one as soon as its parameter gets it."""

    def __init__(self, model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        super().__init__()
        self.during, self.moments = "", list[Moment]()
        self.living: dict[int, tuple[str, int]] = {}
        self.watched: list[weakref.ref] = []
        for kind, tensors in (("parameters", model.parameters()), ("buffers", model.buffers()), ("inputs", inputs)):
            for tensor in tensors:
                self.see(tensor, kind)
        self.hooks = [parameter.register_hook(self.is_gradient) for parameter in model.parameters()]

    def see(self, tensor: torch.Tensor, kind: str, again: bool = False) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self.living:
            self.watched.append(weakref.ref(storage, lambda _: self.living.pop(key)))
        if again or key not in self.living:
            self.living[key] = kind, storage.nbytes()

    def is_gradient(self, gradient: torch.Tensor) -> None:
        self.see(gradient, "gradients", again=True)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        in_backward = torch._C._current_graph_task_id() != -1
        kind = "optimizer" if self.during == "step" else "temporaries" if in_backward else "activations"
        for one in result if isinstance(result, tuple | list) else (result,):
            if isinstance(one, torch.Tensor):
                self.see(one, kind)
        if func.namespace == "aten":
            sizes: Counter[str] = Counter()
            for name, size in self.living.values():
                sizes[name] += size
            self.moments.append(Moment(func.overloadpacket.__name__, self.during, +sizes))
        return result


def counted(
    model: nn.Module, *args: torch.Tensor, optimizer: Callable[..., torch.optim.Optimizer] | None = None
) -> Peak:
    """What `track` gives, of a step that is taken."""
    model = copy.deepcopy(model)
    stepped = optimizer(model.parameters()) if optimizer else None
    with Counted(model, args) as mode:
        mode.during = "forward"
        loss = model(*args).sum()
        mode.during = "backward"
        loss.backward()
        mode.during = "step"
        if stepped:
            stepped.step()
    most = max(mode.moments, key=lambda moment: sum(moment.of.values())).of
    return Peak(sum(most.values()), dict(most), tuple(mode.moments))


def block() -> nn.Sequential:
    return nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 64), nn.GELU(), nn.BatchNorm1d(64), nn.Linear(64, 16))


def check(make: Callable[..., Peak], device: str) -> tuple[float, str | None]:
    """The peak, and the bytes of each kind after each operator: all equal to those of a step that is really taken."""
    torch.manual_seed(0)
    x = torch.randn(32, 16)
    for model in (block(), nn.Sequential(block(), nn.ReLU(inplace=True), block())):
        for optimizer in (None, torch.optim.SGD, torch.optim.AdamW):
            before = copy.deepcopy(model)
            got, expected = make(model, x, optimizer=optimizer), counted(model, x, optimizer=optimizer)
            if failure := touched(before, model):
                return math.inf, failure
            which = f"{len(model)} layers, {optimizer.__name__ if optimizer else 'no step'}"
            if [one[:2] for one in got.moments] != [one[:2] for one in expected.moments]:
                return math.inf, f"{which}: other operators than those of a step that is taken"
            for one, other in zip(got.moments, expected.moments, strict=True):
                if dict(one.of) != dict(other.of):
                    where = f"{which}, after {one.operator} of the {one.during}"
                    return math.inf, f"{where}: {dict(one.of)}, expected {dict(other.of)}"
            if (got.bytes, got.of) != (expected.bytes, expected.of):
                return math.inf, f"{which}: a peak of {got.bytes:,} bytes, expected {expected.bytes:,}"
    return 0.0, None


def changed(change: Callable[[list[dict[str, int]]], list[dict[str, int]]]) -> Callable[..., Peak]:
    def wrong(model: nn.Module, *args: torch.Tensor, **options: Any) -> Peak:
        peak = track(model, *args, **options)
        sizes = change([dict(moment.of) for moment in peak.moments])
        moments = tuple(moment._replace(of=of) for moment, of in zip(peak.moments, sizes, strict=True))
        most = max(sizes, key=lambda of: sum(of.values()))
        return Peak(sum(most.values()), most, moments)

    return wrong


def never_freed(sizes: list[dict[str, int]]) -> list[dict[str, int]]:
    return [{kind: max(of.get(kind, 0) for of in sizes[: n + 1]) for kind in now} for n, now in enumerate(sizes)]


def really_taken(model: nn.Module, *args: torch.Tensor, **options: Any) -> Peak:
    """Counts a step that it takes, with the model itself."""
    peak = track(model, *args, **options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.sub_(0.01)
    return peak


def only_the_forward(model: nn.Module, *args: torch.Tensor, **options: Any) -> Peak:
    """The peak of the forward, taken for the step's."""
    peak = track(model, *args, **options)
    most = max((one.of for one in peak.moments if one.during == "forward"), key=lambda of: sum(of.values()))
    return Peak(sum(most.values()), dict(most), peak.moments)


def on_gpu(model: nn.Module, *args: torch.Tensor) -> int:
    """The peak of forward and backward that a GPU's allocator saw, without what it held before."""
    model, moved = copy.deepcopy(model).cuda(), [arg.cuda() for arg in args]
    model(*moved).sum().backward()  # now the libraries have their workspaces
    model.zero_grad()
    before = torch.cuda.memory_allocated() - sum(one.nbytes for one in (*model.parameters(), *model.buffers(), *moved))
    torch.cuda.reset_peak_memory_stats()
    model(*moved).sum().backward()
    return torch.cuda.max_memory_allocated() - before


class MixedPrecisionAdam(torch.optim.Optimizer):
    """For parameters in bfloat16, an AdamW on copies of them in float32."""

    def __init__(self, parameters: Iterable[torch.Tensor]) -> None:
        super().__init__(parameters, {})

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for one in (one for group in self.param_groups for one in group["params"]):
            if not self.state[one]:
                copied = one.detach().float()
                self.state[one].update(copied=copied, mean=torch.zeros_like(copied), square=torch.zeros_like(copied))
            copied, mean, square = (self.state[one][name] for name in ("copied", "mean", "square"))
            gradient = one.grad.float()
            mean.lerp_(gradient, 0.1)
            square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
            copied.addcdiv_(mean, square.sqrt().add_(1e-8), value=-1e-3)
            one.data.copy_(copied)


def bytes_of_a_parameter(device: str) -> Mapping[str, Number]:
    """What stays after a training step, and its peak, for each parameter of a language model."""
    found = {}
    for name, dtype, optimizer in (
        ("mixed precision", torch.bfloat16, MixedPrecisionAdam),
        ("all in float32", torch.float32, torch.optim.AdamW),
        ("all in bfloat16", torch.bfloat16, torch.optim.AdamW),
    ):
        model = LanguageModel(vocab_size=256, dim=256, depth=4).to(dtype)
        count = sum(one.numel() for one in model.parameters())
        tracked = track(model, torch.randint(256, (4, 256)), optimizer=optimizer)
        stays = tracked.moments[-1].of
        states = sum(stays.get(kind, 0) for kind in ("parameters", "gradients", "optimizer"))
        found[f"{name}, states"] = Number.exact(states / count, "bytes a parameter")
        found[f"{name}, peak"] = Number.exact(tracked.bytes / count, "bytes a parameter")
    return found


def demo(device: str, quick: bool) -> Shown:
    model = LanguageModel(vocab_size=256, dim=64 if quick else 256, depth=2)
    tokens = torch.randint(256, (4, 64 if quick else 256))
    tracked = track(model, tokens, optimizer=torch.optim.AdamW)
    after = {moment.during: sum(moment.of.values()) for moment in tracked.moments}
    said = ", ".join(f"{kind} {size / 2**20:.1f}" for kind, size in tracked.of.items())
    if device == "cuda":
        said += f"; without the step {track(model, tokens)}, and this GPU's allocator {on_gpu(model, tokens) / 2**20:.1f} MiB"
    return Shown(
        "one training step of a language model with AdamW, nothing of which is computed or allocated",
        "bytes of every kind after every operator are equal to those of steps that were taken",
        f"peak {tracked}: {said}; left after the forward {after['forward'] / 2**20:.1f} MiB, "
        f"the backward {after['backward'] / 2**20:.1f}, the step {after['step'] / 2**20:.1f}",
        tracked.plot(),
    )


SYSTEM = System(
    name="tracking",
    summary="the memory of a training step by kind, after every operator, without taking the step",
    modules=("kernels.memory.tracking",),
    make=track,
    proof="a step that is really taken, in which every storage that lives is counted",
    check=check,
    wrong={
        "nothing is freed": changed(never_freed),
        "gradients are taken for temporaries": changed(
            lambda sizes: [{("temporaries" if k == "gradients" else k): v for k, v in of.items()} for of in sizes]
        ),
        "the forward alone decides the peak": only_the_forward,
        "the model takes the step": really_taken,
    },
    demo=demo,
    from_torch=("MemTracker counts, on fake tensors",),
    claims=(
        Claim(
            name="mixed-precision-adam-16-bytes",
            text="Mixed-precision Adam has K = 12. In total, this results in 2Ψ + 2Ψ + KΨ = 16Ψ bytes of memory requirement.",
            source="Rajbhandari et al., ZeRO (2020), section 3.1",
            conditions="Ψ parameters and gradients of two bytes, a copy, momentum and variance of four bytes each",
            verdict="confirmed",
            reason="parameters, gradients and states take exactly that, and as much when all are in single precision; the "
            "activations and what the step makes for itself come on top at the peak",
            evidence="exact on a CPU",
            experiment=bytes_of_a_parameter,
            devices=("cpu",),
        ),
    ),
)
