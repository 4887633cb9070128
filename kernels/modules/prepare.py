"""A model made ready for the machine that it is on."""

from dataclasses import dataclass, field

import torch
from torch import nn

from kernels.hardware import Device, devices
from kernels.modules.swap import swap

TILE = 8  # elements of a half type that fill 16 bytes, which matrix units read at once

WHY = {
    "cuda": "the fastest with gradients, by what was measured",
    "cpu": "on a CPU the kernels of levels 4 and 5 run to be looked at, not to be fast",
}


@dataclass(frozen=True)
class Prepared:
    """A model on its device, with the reason for all that was done to it and for what was left."""

    model: nn.Module
    device: Device
    reasons: tuple[str, ...] = field(default=())


def prepare(model: nn.Module, device: Device | None = None) -> Prepared:
    """Move a model to the best device here, and put the course's modules in it at the level that is right there.

    The model is changed in place; what it computes stays the same within rounding.

    Args:
        model: any.
        device: one of `kernels.hardware.devices()`; by default the first of them that PyTorch has tensors on.

    Raises:
        ValueError: a device that PyTorch has no tensors on.
    """
    device = device or next(one for one in devices() if one.torch)
    if not device.torch:
        raise ValueError(f"device: got {device.name}, on which PyTorch has no tensors of its own")
    model.to(device.torch)
    reasons = [f"on {device.torch}: {device.name}, where kernels of this course are {device.evidence}"]
    level = "triton" if device.kind == "cuda" else "native"
    why = WHY.get(device.kind, f"the course's kernels are {device.evidence} for {device.kind}")
    done = swap(model, level=level)
    reasons += [f"{name}: replaced at level {level}: {why}" for name in done.replaced]
    reasons += [f"{name}: left: {reason}" for name, reason in done.left.items()]
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and (module.in_features % TILE or module.out_features % TILE):
            shape = f"{module.in_features} × {module.out_features}"
            reasons.append(
                f"{name}: {shape} are not multiples of {TILE}, which matrix units want: pad them in training"
            )
    if device.kind == "cuda" and all(one.dtype == torch.float32 for one in model.parameters()):
        reasons.append("dtype: all parameters are float32; torch.autocast with bfloat16 uses the matrix units")
    return Prepared(model, device, tuple(reasons))
