"""Checkpointing: proved to the bit against the model that keeps everything."""

import copy
import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from kernels.claims import Claim, Number
from kernels.figures import Picture
from kernels.memory import checkpoint, track
from kernels.memory.costs import costs
from kernels.memory.pools import record
from kernels.system import Shown, System


def blocks(depth: int, width: int = 256) -> nn.Sequential:
    """Blocks with a dropout, whose mask must be the same the second time."""
    torch.manual_seed(0)
    hidden = 4 * width
    return nn.Sequential(
        *(
            nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, hidden), nn.GELU(), nn.Dropout(0.1), nn.Linear(hidden, width)
            )
            for _ in range(depth)
        )
    )


def step(model: nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """The output and all gradients of a step, from the same random state."""
    torch.manual_seed(1)
    y = model(x)
    gradients = torch.autograd.grad(y.square().mean(), tuple(model.parameters()))
    return {"output": y.detach()} | dict(zip((n for n, _ in model.named_parameters()), gradients, strict=True))


def uneven() -> nn.Sequential:
    """Blocks of which each costs another number of operations for a byte that it frees."""
    torch.manual_seed(0)
    inner = (
        (nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 64)),
        (nn.GELU(),),
        (nn.Dropout(0.2), nn.GELU()),
        (nn.GELU(),),
    )
    return nn.Sequential(*(nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 64), *layers) for layers in inner))


def check(make: Callable[..., list[str]], device: str) -> tuple[float, str | None]:
    """Every policy gives the output and the gradients to the bit, and keeps fewer bytes; within a number of bytes, the
    measured peak is within it, those blocks forget that cost the fewest operations for a byte, and none more than needed."""
    kept, x = blocks(3, 32), torch.randn(8, 32)
    for policy in ("all", "keep products", lambda block: isinstance(block[2], nn.GELU)):
        model = copy.deepcopy(kept)
        chosen = make(model, policy)
        if failure := differs(kept, model, x, device):
            return math.inf, f"{policy}: {failure}"
        if not chosen or kept_bytes(model.to(device), x.to(device)) >= kept_bytes(kept.to(device), x.to(device)):
            return math.inf, f"{policy}: as many bytes are kept for the backward as without it"
    kept, x = uneven(), torch.randn(32, 64)
    for policy, order in (("all", "2130"), (lambda block: block.rank, "3210")):
        peaks = []
        for rank, block in enumerate(kept):
            block.rank = rank + 1  # type: ignore[assignment]
        for count in range(len(order) + 1):
            model = copy.deepcopy(kept)
            checkpoint(model, partial(among, order[:count]))
            peaks.append(measured(model, x))
        between = [(one + other) // 2 for one, other in pairwise(peaks)]
        for budget in (peaks[0], peaks[1], between[1]) if policy == "all" else between[2:3]:
            model = copy.deepcopy(kept)
            chosen = make(model, policy, bytes=budget, inputs=(x,))
            wanted = sorted(order[: next(count for count, peak in enumerate(peaks) if peak <= budget)])
            if measured(model, x) > budget:
                return math.inf, f"{budget:,} bytes: the measured peak is {measured(model, x):,}"
            if chosen != wanted:
                return math.inf, f"{budget:,} bytes: {chosen} forget, expected {wanted}"
            if failure := differs(kept, model, x, device):
                return math.inf, f"{budget:,} bytes: {failure}"
    try:
        make(copy.deepcopy(kept), policy, bytes=min(peaks) - 1, inputs=(x,))
        return math.inf, f"{min(peaks) - 1:,} bytes, which no choice reaches, are taken"
    except ValueError as error:
        if f"{min(peaks):,}" not in str(error):
            return math.inf, f"the error does not name the smallest peak, {min(peaks):,}: {error}"
    return 0.0, None


def among(ranks: str, block: nn.Module) -> bool:
    return str(int(block.rank) - 1) in ranks  # type: ignore[arg-type]


def differs(kept: nn.Module, model: nn.Module, x: torch.Tensor, device: str) -> str | None:
    expected = step(copy.deepcopy(kept).to(device), x.to(device))
    got = step(copy.deepcopy(model).to(device), x.to(device))
    names = [name for name in expected if not torch.equal(expected[name], got[name])]
    return f"{', '.join(names)} differ from the model's that keeps everything" if names else None


def kept_bytes(model: nn.Module, x: torch.Tensor) -> int:
    """What autograd keeps between forward and backward, parameters not counted, each storage once."""
    kept, parameters = {}, {parameter.data_ptr() for parameter in model.parameters()}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.data_ptr() not in parameters:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = model(x)  # kept until it is counted: a storage that is freed gives its address to another
    del y
    return sum(kept.values())


def measured(model: nn.Module, x: torch.Tensor) -> int:
    """The most bytes that lived at one time in a step that was really taken, on a CPU."""
    held: dict[int, int] = {}
    live = peak = sum(one.nbytes for one in (x, *model.parameters()))
    model = copy.deepcopy(model)
    for event in record(lambda: model(x).sum().backward()):
        if event.bytes is None:
            live -= held.pop(event.tensor)
        else:
            held[event.tensor] = event.bytes
            live += event.bytes
        peak = max(peak, live)
    return peak


def other_dropout(model: nn.Module, policy: object, **limits: Any) -> list[str]:
    """Does not put the random state back before the second forward."""
    for block in model.children():
        block.forward = partial(
            torch.utils.checkpoint.checkpoint, block.forward, use_reentrant=False, preserve_rng_state=False
        )
    return ["0"]


def nothing(model: nn.Module, policy: object, **limits: Any) -> list[str]:
    return ["0"]


def all_of_them(model: nn.Module, policy: Any, **limits: Any) -> list[str]:
    """Takes any budget for a reason to let all blocks forget."""
    return checkpoint(model, policy)


def from_the_first(model: nn.Module, policy: Any, **limits: Any) -> list[str]:
    """Lets blocks forget in the model's order, whatever they cost."""
    order = list(model.children())
    return checkpoint(model, (lambda block: len(order) - order.index(block)) if limits else policy, **limits)


def dearest_first(model: nn.Module, policy: Any, **limits: Any) -> list[str]:
    """Lets those blocks forget first whose second forward costs the most."""
    if not limits or callable(policy):
        return checkpoint(model, policy, **limits)
    found = costs(model, dict(model.named_children()), *limits["inputs"])
    by_block = dict(zip(model.children(), found.values(), strict=True))
    return checkpoint(model, lambda block: by_block[block].importance, **limits)


def peaks(device: str) -> Mapping[str, Number]:
    """The peaks of a step, exact, of 8 blocks of width 256 on 4 × 256 rows, and how much longer a step takes."""
    model, x = blocks(8), torch.randn(1024, 256)
    found = {"kept": track(model, x).bytes}
    for policy in ("all", "keep products"):
        model = blocks(8)
        checkpoint(model, policy)
        found[policy] = track(model, x).bytes
    less = {f"peak, {name}": 100 * (size / found["kept"] - 1) for name, size in found.items() if name != "kept"}
    return {name: Number.exact(value, "%") for name, value in less.items()} | {"time, all": slower(device)}


def slower(device: str, rounds: int = 7) -> Number:
    """How much longer a step takes with all blocks checkpointed, in rounds that time both."""
    x, models = torch.randn(1024, 256, device=device), [blocks(8).to(device) for _ in range(2)]
    checkpoint(models[1])
    more = []
    for _ in range(rounds + 1):
        seconds = []
        for model in models:
            begin = time.perf_counter()
            step(model, x)["output"].sum().item()
            seconds.append(time.perf_counter() - begin)
        more.append(100 * (seconds[1] / seconds[0] - 1))
    return Number.of(more[1:], "%")  # the first round warms up


def demo(device: str, quick: bool) -> Shown:
    import plotly.graph_objects as go

    depths = (2, 4) if quick else (2, 4, 8, 16)
    peak: dict[str, list[float]] = {"kept": [], "all": [], "keep products": []}
    for depth in depths:
        for policy, sizes in peak.items():
            model = blocks(depth)
            if policy != "kept":
                checkpoint(model, policy)
            sizes.append(track(model, torch.empty(1024, 256)).bytes / 2**20)
    lines = [go.Scatter(x=depths, y=sizes, name=name, mode="lines+markers") for name, sizes in peak.items()]
    layout = {"xaxis": {"title": "blocks"}, "yaxis": {"title": "peak of a step, MiB", "rangemode": "tozero"}}
    ends = ", ".join(f"{name} {sizes[-1]:.0f} MiB" for name, sizes in peak.items())
    return Shown(
        f"{depths[-1]} blocks that keep their activations, that forget all of them, and that keep matrix products alone",
        "output and gradients are equal to the bit under every policy, dropout included",
        f"peak of a training step: {ends}",
        Picture(go.Figure(lines, layout), f"Peak of a training step by the number of blocks; at {depths[-1]}: {ends}."),
    )


SYSTEM = System(
    name="checkpointing",
    summary="blocks of a model that forget their activations and compute them again in the backward",
    modules=("kernels.memory.checkpointing", "kernels.memory.costs"),
    make=checkpoint,
    proof="the same model that keeps everything: output and gradients to the bit, and its measured peak",
    check=check,
    wrong={
        "another dropout mask the second time": other_dropout,
        "nothing is forgotten": nothing,
        "any budget makes all blocks forget": all_of_them,
        "blocks forget in the model's order": from_the_first,
        "the dearest forget first": dearest_first,
    },
    demo=demo,
    from_torch=("torch.utils.checkpoint runs the forward again", "MemTracker counts"),
    claims=(
        Claim(
            name="checkpointing-60-percent",
            text="−60 % memory",
            source="optimization framework, selective gradient checkpointing",
            conditions="none given",
            verdict="partly",
            reason="with all activations forgotten a step of this model's peak falls by as much, and takes half as long "
            "again; the share that activations have decides",
            evidence="measured",
            experiment=peaks,
        ),
    ),
)
