"""Level 1: SwiGLU and GeGLU in PyTorch operators, from which levels 2 and 3 are derived, and their signature."""

import torch

from kernels import arguments
from kernels.activations import NAMES, activated, slope
from kernels.signature import Signature


def swiglu(gate: torch.Tensor, up: torch.Tensor, activation: str = "silu") -> torch.Tensor:
    """activation(gate) · up, computed in float32 (float64 for float64) and rounded once."""
    wide = gate if gate.dtype == torch.float64 else gate.float()
    return (activated(wide, activation) * up).to(gate.dtype)


def swiglu_backward(dy, gate, up, activation):
    """The gradients: dgate = dy · up · activation'(gate), and dup = dy · activation(gate)."""
    wide = gate if gate.dtype == torch.float64 else gate.float()
    return (dy * up.to(wide.dtype) * slope(wide, activation)).to(up.dtype), (dy * activated(wide, activation)).to(
        up.dtype
    )


def validate(gate, up, activation) -> None:
    arguments.floating("gate", gate)
    arguments.like("up", up, gate.shape, "gate", gate)
    arguments.choice("activation", activation, NAMES)


SIGNATURE = Signature(
    "(Tensor gate, Tensor up, str activation='silu') -> Tensor y",
    validate=validate,
    gradients=("gate", "up"),
    save=("gate", "up"),
    native_backward=swiglu_backward,
)
