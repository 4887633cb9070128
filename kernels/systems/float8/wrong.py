"""Linear layers in eight bits with the mistakes that people make with formats, scales and overflows."""

from typing import Any

import torch
import torch.nn.functional as F

from kernels.precision import Float8Linear
from kernels.precision.float8 import Float8, quantize


class OneFormat(Float8Linear):
    """Rounds gradients to e4m3 as well."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "backward": "e4m3"})


class ScaleByAll(Float8Linear):
    """Takes one scale for the whole matrix where a row should have its own."""

    def cast(self, x, role, dim=1):
        limit = x.detach().abs().float().amax()
        if self.scaling != "row":
            return super().cast(x, role, dim)
        return quantize(x, self.formats[role], limit.expand((x.shape[0], 1) if dim == 1 else (1, x.shape[1])))


class SeesTheOutlier(Float8Linear):
    """Puts the magnitudes of this call into the history before it takes the scale: nothing ever overflows."""

    def cast(self, x, role, dim=1):
        if self.scaling == "delayed":
            history = getattr(self, f"{role}_history")
            history[0] = torch.maximum(history[0], x.detach().abs().float().nan_to_num(0.0, 0.0, 0.0).amax())
        return super().cast(x, role, dim)


class RoundsTowardZero(Float8Linear):
    def cast(self, x, role, dim=1):
        codes, scale = super().cast(x, role, dim)
        down = codes.view(torch.uint8) - (codes.float().abs() > (x.float() / scale).abs()).to(torch.uint8)
        return Float8(down.view(codes.dtype), scale)


class HighPrecisionBackward(Float8Linear):
    """Multiplies in 8 bits in the forward alone."""

    def forward(self, x):
        exact = F.linear(x, self.weight, self.bias)
        return exact + (super().forward(x) - exact).detach()


class ForgetsBias(Float8Linear):
    def forward(self, x):
        bias = self.bias
        self.bias = None  # type: ignore[assignment]
        try:
            return super().forward(x)
        finally:
            self.bias = bias


class StaticBias(Float8Linear):
    """The bias gets no gradient."""

    def forward(self, x):
        y = super().forward(x)
        return y if self.bias is None else y + (self.bias.detach() - self.bias)


class CountsNothing(Float8Linear):
    def forward(self, x):
        y = super().forward(x)
        self.overflowed.zero_()
        return y
