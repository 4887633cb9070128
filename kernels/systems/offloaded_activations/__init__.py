"""Activations in the host's memory: results to the bit, bytes to the byte, against the model whose activations stay."""

import math
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.graph import save_on_cpu

from kernels.claims import Claim, Number
from kernels.figures import Picture
from kernels.memory.activations import offload_activations
from kernels.models import LanguageModel
from kernels.system import Shown, System
from kernels.systems.offloaded_activations import wrong

SMALLEST = 3_000  # bytes, between the sizes that `Views` saves


class Views(nn.Module):
    """Saves views of one allocation, of parameters, a change in place, a table that all blocks share, and a dropout's mask."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, given: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        x, table = given
        q, k, v = self.qkv(self.norm(x) * table).chunk(3, -1)
        attended = F.dropout(F.scaled_dot_product_attention(q, k, v), 0.1)
        return x + self.out(F.relu_(attended + q)), table


def example(device: str) -> tuple[nn.Sequential, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    model = nn.Sequential(*(Views(32) for _ in range(4))).to(device)
    return model, torch.randn(2, 24, 32).to(device), torch.rand(24, 32).to(device)


def step(model: nn.Module, x: torch.Tensor, table: torch.Tensor) -> list[torch.Tensor]:
    """The output, and the gradients of a loss."""
    torch.manual_seed(1)
    y = model((x, table))[0]
    return [y.detach(), *torch.autograd.grad(y.square().mean(), tuple(model.parameters()))]


def saved_bytes(model: nn.Module, x: torch.Tensor, table: torch.Tensor) -> list[int]:
    """The allocations that autograd saves, in order, without parameters and those that are too small."""
    parameters, sizes = {parameter.data_ptr() for parameter in model.parameters()}, dict[int, int]()

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters and storage.nbytes() >= SMALLEST:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss = model((x, table))[0].square().mean()  # lives until all are seen: what is freed would be given out again
    del loss
    return list(sizes.values())


def check(make: Callable[..., Any], device: str) -> tuple[float, str | None]:
    """Output and gradients to the bit within every limit; the bytes of each way; memory that is really given up in the forward;
    a second backward; and an error for what is changed in place."""
    model, x, table = example(device)
    expected, sizes = step(model, x, table), saved_bytes(model, x, table)
    for resident in (0, 10_000, 1 << 30):
        with make(SMALLEST, resident, device) as moved:
            got = step(model, x, table)
        if not all(torch.equal(one, other) for one, other in zip(got, expected, strict=True)):
            return math.inf, f"{resident:,} bytes resident: other results than those of activations that stay"
        stay = list(sizes)
        while sum(stay) > resident:
            stay.pop(0)
        ways, wanted = (moved.to_host, moved.to_device), (sum(sizes), sum(sizes) - sum(stay))
        if ways != wanted:
            return math.inf, f"{resident:,} bytes resident: {ways} bytes moved to the host and back, expected {wanted}"
        if left := still_there(make, model, x, table, resident, device):
            return math.inf, left
    with make(SMALLEST, 10_000, device):
        y = model((x, table))[0].square().mean()
    once, again = (torch.autograd.grad(y, tuple(model.parameters()), retain_graph=True) for _ in range(2))
    if not all(torch.equal(one, other) for one, other in zip(once, again, strict=True)):
        return math.inf, "a second backward gives other gradients than the first"
    for smallest in (0, 1 << 20):
        z = x.clone().requires_grad_() * 1
        with make(smallest, 1 << 30, device):
            y = (z * z).sum()
        z.add_(1)
        try:
            y.backward()
            return math.inf, "what was saved is changed in place, and the backward goes on"
        except RuntimeError:
            pass
    return 0.0, None


def still_there(
    make: Callable[..., Any], model: nn.Sequential, x: torch.Tensor, table: torch.Tensor, resident: int, device: str
) -> str | None:
    """Whether more bytes of what the blocks gave to each other live after the forward than may."""
    given: list[weakref.ref] = []
    hooks = [
        block.register_forward_hook(lambda _, __, output: given.append(weakref.ref(output[0].untyped_storage())))
        for block in [*model][:-1]
    ]
    with make(SMALLEST, resident, device):
        y = model((x, table))
    for hook in hooks:
        hook.remove()
    living = sum(storage.nbytes() for ref in given if (storage := ref()) is not None)
    del y
    return f"{living:,} bytes live after the forward, and {resident:,} may" if living > resident else None


def costs(dim: int, length: int) -> dict[str, tuple[int, int, list[float]]]:
    """On a GPU, of a language model's step with activations that stay, that move, and that PyTorch's own context moves: bytes
    on the device, beyond those before, after the forward and at the peak; and the seconds of five steps."""
    torch.manual_seed(0)
    model, tokens = LanguageModel(256, dim, depth=4).cuda(), torch.randint(256, (4, length), device="cuda")
    found = {}
    contexts: dict[str, Any] = {
        "stay": nullcontext(),
        "move": offload_activations(smallest=1 << 16),
        "save_on_cpu": save_on_cpu(pin_memory=True),
    }
    for name, context in contexts.items():
        seconds = []
        for _ in range(6):  # the first one does not count: in it the host's memory is pinned
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            begin, before = time.perf_counter(), torch.cuda.memory_allocated()
            with context:
                loss = model(tokens).square().mean()
            after = torch.cuda.memory_allocated()
            torch.autograd.grad(loss, tuple(model.parameters()))[0].sum().item()
            seconds.append(time.perf_counter() - begin)
            peak = torch.cuda.max_memory_allocated()
            del loss
        found[name] = after - before, peak - before, seconds[1:]
    return found


def traded(device: str) -> Mapping[str, Number]:
    """What autograd saves, all of which PyTorch's context moves, over the allocations in it, each once and without parameters;
    on a GPU, the peak and the time of a step with each of both, over those of activations that stay."""
    model, x, table = example("cpu")
    saved: list[int] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        saved.append(tensor.nbytes)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model((x, table))
    with offload_activations(smallest=0, device="cpu") as moved:
        step(model, x, table)
    found = {"bytes moved, save_on_cpu over each allocation once": Number.exact(sum(saved) / moved.to_host, "×")}
    if device == "cuda":
        of = costs(1_024, 1_024)
        _, least, resident = of["stay"]
        for name in ("save_on_cpu", "move"):
            _, peak, seconds = of[name]
            found[f"peak, {name} over resident"] = Number.exact(peak / least, "×")
            slower = [one / median(resident) for one in seconds]
            found[f"time, {name} over resident"] = Number.of(slower, "×")
    return found


def demo(device: str, quick: bool) -> Shown:
    import plotly.graph_objects as go

    model, x, table = example(device)
    sizes, limits = saved_bytes(model, x, table), [0, 5_000, 10_000, 20_000, 40_000, 80_000, 160_000]
    ways: dict[str, list[int]] = {"to the host": [], "back": []}
    for resident in limits:
        with offload_activations(SMALLEST, resident, device) as moved:
            step(model, x, table)
        ways["to the host"].append(moved.to_host)
        ways["back"].append(moved.to_device)
    back = f"{ways['back'][2]:,} come back where 10,000 may stay"
    said = f"{sum(sizes):,} bytes of {len(sizes)} allocations go to the host, and {back}"
    if device == "cuda":
        stay, move, _ = costs(512 if quick else 1024, 512 if quick else 1024).values()
        said += (
            f"; a language model's step: {stay[1] / 2**20:.0f} MiB at the peak where they stay and {move[1] / 2**20:.0f} "
            f"where they move, after the forward {stay[0] / 2**20:.0f} and {move[0] / 2**20:.0f}, "
            f"and {median(move[2]) / median(stay[2]):.2f}× the time"
        )
    else:
        said += "; how much memory and time that makes only a GPU says"
    lines = [go.Scatter(x=limits, y=size, name=name, mode="lines+markers") for name, size in ways.items()]
    layout = {"xaxis": {"title": "bytes that may stay"}, "yaxis": {"title": "bytes moved", "rangemode": "tozero"}}
    return Shown(
        "four blocks whose saved activations move to the host's memory, and back for the backward",
        "output and gradients are equal to the bit within every limit, bytes moved are those of the theory",
        said,
        Picture(go.Figure(lines, layout), f"Bytes moved by how many may stay: {said}."),
    )


SYSTEM = System(
    name="offloaded_activations",
    summary="what autograd saves moves to the host’s memory, and back when the backward needs it",
    modules=("kernels.memory.activations", "kernels.memory.link"),
    make=offload_activations,
    proof="the model whose activations stay: output and gradients to the bit, and bytes moved to the byte",
    check=check,
    wrong={
        "half of the bits": wrong.Rounds,
        "a view begins elsewhere": wrong.ForgetsOffsets,
        "each view moves on its own": wrong.MovesEveryView,
        "nothing is given up": wrong.NeverGivesUp,
        "changes in place go unseen": wrong.LooksAway,
    },
    demo=demo,
    from_torch=("saved_tensors_hooks", "copies, streams and pinned memory"),
    claims=(
        Claim(
            name="save-on-cpu",
            text="Use this context-manager to trade compute for GPU memory usage",
            source="PyTorch’s documentation, torch.autograd.graph.save_on_cpu",
            conditions="none given",
            verdict="partly",
            reason="the peak on a GPU falls by more than half, and the price is time for copies, not for computing: it moves "
            "every tensor that is saved, parameters and several views of one allocation among them; moving each allocation "
            "once, and no parameters, takes less than half of that time",
            evidence="measured",
            experiment=traded,
        ),
    ),
)
