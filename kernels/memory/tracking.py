"""How many bytes a training step takes, and what they hold, operator by operator: exact, and the same on every machine."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

from kernels.figures import GREY, Picture

KINDS = {
    "Parameter": "parameters",
    "Buffer": "buffers",
    "Optstate": "optimizer",
    "Gradient": "gradients",
    "Activation": "activations",
    "Temp": "temporaries",
    "Other": "inputs",
}


class Moment(NamedTuple):
    """What was allocated right after an operator: its name, the part of the step that it belongs to, and bytes by kind."""

    operator: str
    during: str
    of: Mapping[str, int]


@dataclass(frozen=True)
class Peak:
    """The most bytes that were allocated at one time during a training step, and what they held, by kind.

    `moments` has what was allocated after each operator of the step. The kinds are parameters, buffers, inputs, gradients
    (of parameters), activations (what the forward allocates), temporaries (what the backward does) and optimizer (what its
    step allocates, temporaries of the step too). As the last value of a notebook's cell, `plot()` shows them over time.
    """

    bytes: int
    of: dict[str, int]
    moments: tuple[Moment, ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"{self.bytes / 2**20:.1f} MiB"

    def plot(self) -> Picture:
        """The bytes of each kind after each operator, one kind on top of the other."""
        import plotly.graph_objects as go

        unit, size = ("GiB", 2**30) if self.bytes >= 2**32 else ("MiB", 2**20)
        lines = []
        for kind in KINDS.values():
            sizes = [moment.of.get(kind, 0) / size for moment in self.moments]
            if any(sizes):
                lines.append(go.Scatter(y=sizes, name=kind, stackgroup="bytes", line={"shape": "hv"}))
        figure = go.Figure(lines, {"xaxis": {"title": "operators"}, "yaxis": {"title": f"allocated, {unit}"}})
        during = [moment.during for moment in self.moments]
        for part in dict.fromkeys(during):
            figure.add_vline(during.index(part), line={"width": 1, "color": GREY}, annotation={"text": part})
        most = ", ".join(f"{kind} {held / size:.1f}" for kind, held in self.of.items())
        return Picture(
            figure, f"Allocated memory over a training step; at its peak of {self} it holds, in {unit}: {most}."
        )


def track(model: nn.Module, *args: torch.Tensor, optimizer: Callable[..., torch.optim.Optimizer] | None = None) -> Peak:
    """The memory of one training step: forward, the backward of the sum of the output, and a step of the optimizer.

    Nothing is computed and nothing allocated: a model larger than this machine's memory can be tracked. Counted as on a CPU,
    by `torch.distributed._tools.mem_tracker`, without what an allocator adds.

    Args:
        model: on a CPU or on device "meta".
        args: what it is called with; their shapes and dtypes count.
        optimizer: such as torch.optim.AdamW; None for no step.

    TypeError: the model is no torch.nn.Module.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: got {type(model).__name__}, expected a torch.nn.Module")
    with faked(model, *args) as (fake, inputs):
        stepped = optimizer(fake.parameters()) if optimizer else None
        tracker = _Tracker()
        tracker.track_external(fake, *inputs, *([stepped] if stepped else []))
        with tracker:
            tracker.during = "forward"
            loss = fake(*inputs).sum()
            tracker.during = "backward"
            loss.backward()
            tracker.during = "step"
            if stepped:
                stepped.step()
    peak = next(iter(tracker.get_tracker_snapshot("peak").values()))
    return Peak(peak["Total"], _by_kind(peak), tuple(tracker.moments))


class _Tracker(MemTracker):
    """Keeps what is allocated after each operator too."""

    def __init__(self) -> None:
        super().__init__()
        self.during, self.moments = "", list[Moment]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        if func.namespace == "aten":  # the others ask for a device, or mark a place in a profile
            now = next(iter(self.get_tracker_snapshot().values()), {})
            self.moments.append(Moment(func.overloadpacket.__name__, self.during, _by_kind(now)))
        return result


def _by_kind(snapshot: Mapping[Any, int]) -> dict[str, int]:
    return {KINDS[kind.value]: size for kind, size in snapshot.items() if kind != "Total" and size}


@contextmanager
def faked(model: nn.Module, *args: torch.Tensor) -> Iterator[tuple[nn.Module, Sequence[torch.Tensor]]]:
    """A copy of the model, and its arguments, that have no memory, as long as this is entered."""
    copied = copy.deepcopy(model)  # out here: buffers cannot be copied among fake tensors
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = _faked(copied, mode)
        yield fake, [torch.empty_like(arg, device="cpu") for arg in args]


def _faked(model: nn.Module, mode: FakeTensorMode) -> nn.Module:
    """The model with parameters and buffers that have no memory."""
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            fake = nn.Parameter(torch.empty_like(parameter, device="cpu"), parameter.requires_grad)
            setattr(module, name, fake)
        for name, buffer in list(module.named_buffers(recurse=False)):
            setattr(module, name, torch.empty_like(buffer, device="cpu"))
    return model
