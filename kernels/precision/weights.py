"""Linear layers that keep their weights in four bits, and dequantise them when they are called."""

import torch
import torch.nn.functional as F
from torch import nn

from kernels.modules import Swapped
from kernels.precision.four_bits import GROUPS, Quantized, dequantize, quantize
from kernels.precision.replacing import replace_linears

SCALES = {"nvfp4": torch.float8_e4m3fn, "mxfp4": torch.float8_e8m0fnu}


class QuantizedLinear(nn.Module):
    """A linear layer of packed weights, for inference: the weights have no gradient, the input has.

    Codes and scales are kept as bytes, and nvfp4's scale over all as an int32, so that `model.bfloat16()` leaves them alone.

    Args:
        linear: whose weight is quantised; its bias is taken over.
        format: "nvfp4" or "mxfp4".

    Raises:
        ValueError: a format of another name; in_features is no multiple of the format's group; weights that are not finite.
    """

    codes: torch.Tensor
    scales: torch.Tensor
    scale: torch.Tensor | None

    def __init__(self, linear: nn.Linear, format: str = "nvfp4") -> None:
        super().__init__()
        self.in_features, self.out_features, self.format = linear.in_features, linear.out_features, format
        codes, scales, scale = quantize(linear.weight, format)
        self.register_buffer("codes", codes)
        self.register_buffer("scales", scales.view(torch.uint8))
        self.register_buffer("scale", scale.view(torch.int32) if format == "nvfp4" else None)
        self.bias = linear.bias

    def dequantized(self, dtype: torch.dtype) -> torch.Tensor:
        """The weight (out_features, in_features) that the codes stand for."""
        scale = torch.ones((), device=self.codes.device) if self.scale is None else self.scale.view(torch.float32)
        return dequantize(Quantized(self.codes, self.scales.view(SCALES[self.format]), scale), dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.dequantized(x.dtype), self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, format={self.format!r}"


def quantize_weights(model: nn.Module, format: str = "nvfp4") -> Swapped:
    """Put a QuantizedLinear in place of every nn.Linear; the model is changed in place.

    Args:
        format: "nvfp4": groups of 16 with an e4m3 scale, and a float32 scale over all; "mxfp4": groups of 32 with a power of
            two.

    Returns:
        the layers that were replaced, and those that were left, with the reason: widths that no group divides, or weights
        that are not finite.

    Raises:
        ValueError: a format of another name. TypeError: the model itself is an nn.Linear.
    """
    if format not in GROUPS:
        raise ValueError(f"format: got {format!r}, expected one of {', '.join(GROUPS)}")
    return replace_linears(model, lambda linear: QuantizedLinear(linear, format))
