"""How many bytes a training step takes at most, and what they hold: exact, and the same on every machine."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker


@dataclass(frozen=True)
class Peak:
    """The most bytes that were allocated at one time during a training step, and what they held, by kind."""

    bytes: int
    of: dict[str, int]

    def __str__(self) -> str:
        return f"{self.bytes / 2**20:.1f} MiB"


def track(model: nn.Module, *args: torch.Tensor, optimizer: Callable[..., torch.optim.Optimizer] | None = None) -> Peak:
    """The peak of one training step: forward, the backward of the sum of the output, and a step of the optimizer.

    Nothing is computed and nothing allocated: a model larger than this machine's memory can be tracked. Counted as on a CPU,
    by `torch.distributed._tools.mem_tracker`, without what an allocator adds.

    Args:
        model: on a CPU or on device "meta".
        args: what it is called with; their shapes and dtypes count.
        optimizer: such as torch.optim.AdamW; None for no step.
    """
    with faked(model, *args) as (fake, inputs):
        stepped = optimizer(fake.parameters()) if optimizer else None
        tracker = MemTracker()
        tracker.track_external(fake, *inputs, *([stepped] if stepped else []))
        with tracker:
            fake(*inputs).sum().backward()
            if stepped:
                stepped.step()
    peak = next(iter(tracker.get_tracker_snapshot("peak").values()))
    total = peak.pop("Total")
    return Peak(total, {str(kind).rpartition(".")[2].lower(): size for kind, size in peak.items() if size})


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
