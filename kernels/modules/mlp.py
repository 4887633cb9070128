"""The MLP of a transformer: features made wider, activated, and made narrow again; plain, or with a gate."""

import torch
import torch.nn.functional as F
from torch import nn

from kernels.arguments import positive
from kernels.levels import chosen
from kernels.operation import level_number
from kernels.ops.bias_gelu import bias_gelu
from kernels.ops.swiglu import swiglu


class MLP(nn.Module):
    """Two layers with a GELU between them.

    At levels 4 and 5 the first layer's bias is added by the kernel of the GELU, whose backward has the gradients of both;
    unless that layer was replaced by another, such as one in 8 bits, or has hooks.

    Args:
        dim: features of the input and the output.
        hidden: features between, 4 · dim unless said.
        level: of the GELU, as `kernels.bias_gelu` takes it.

    ValueError: numbers below 1, or an unknown level.
    """

    def __init__(self, dim: int, hidden: int | None = None, level: int | str | None = None) -> None:
        super().__init__()
        if level is not None:
            level_number(level)
        hidden = 4 * dim if hidden is None else hidden
        positive(dim=dim, hidden=hidden)
        self.up, self.down = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
        self.level = level

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        up = self.up
        plain = type(up) is nn.Linear and up.bias is not None and not up._forward_hooks and not up._forward_pre_hooks
        if chosen(self.level, x) < 4 or not plain:
            return self.down(F.gelu(up(x)))
        h = F.linear(x, up.weight)  # in a smaller dtype than the bias under autocast
        return self.down(bias_gelu(h, up.bias.to(h.dtype), level=self.level))


class SwiGLU(nn.Module):
    """down(silu(gate(x)) · up(x)), gate and up in one product: Shazeer, "GLU Variants Improve Transformer" (2020).

    Args:
        dim: features of the input and the output.
        hidden: features between, 8/3 · dim unless said.
        level: of what is between the products, as `kernels.swiglu` takes it.

    ValueError: numbers below 1, or an unknown level.
    """

    activation = "silu"

    def __init__(self, dim: int, hidden: int | None = None, level: int | str | None = None) -> None:
        super().__init__()
        if level is not None:
            level_number(level)
        hidden = 8 * dim // 3 if hidden is None else hidden
        positive(dim=dim, hidden=hidden)
        self.gate_up, self.down = nn.Linear(dim, 2 * hidden, bias=False), nn.Linear(hidden, dim, bias=False)
        self.level = level

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(swiglu(gate, up, self.activation, self.level))


class GeGLU(SwiGLU):
    """down(gelu(gate(x)) · up(x)); otherwise as SwiGLU."""

    activation = "gelu"
