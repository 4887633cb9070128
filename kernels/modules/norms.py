"""Norms as modules: in place of PyTorch's own, with a level to choose."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from kernels.operation import level_number
from kernels.ops.layer_norm import layer_norm
from kernels.ops.rms_norm import rms_norm


class LayerNorm(nn.LayerNorm):
    """`torch.nn.LayerNorm` computed at a level; same parameters, initialisation and state dict.

    Args:
        normalized_shape: the last dimensions of the input, over which all together it is normalised; int or ints.
        eps: added to the variance.
        elementwise_affine: whether there are a weight, of ones at first, and a bias.
        bias: whether there is a bias, of zeros at first; only with elementwise_affine.
        device, dtype: of weight and bias; dtype must be that of the input, as torch's own kernels want it.
        level: 1 to 5 or "native", "torchscript", "compiled", "triton", "cuda"; None for native on a CPU or in
            float64, else Triton, by the input.

    Shapes: the input is (..., *normalized_shape), the output as the input.

    Raises:
        ValueError: an unknown level, when made; an input that does not end in normalized_shape, when called.
        TypeError, ValueError: when called, as `kernels.layer_norm`.
    """

    def __init__(
        self,
        normalized_shape: int | list[int] | torch.Size,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        level: int | str | None = None,
    ) -> None:
        if level is not None:
            level_number(level)
        super().__init__(normalized_shape, eps, elementwise_affine, bias, device, dtype)
        self.level = level

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        rows, weight, bias = flattened(input, self.normalized_shape, self.weight, self.bias)
        y = layer_norm(rows, weight, bias, self.eps, self.level)
        return y if rows is input else y.view(input.shape)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, level={self.level!r}"


class RMSNorm(nn.RMSNorm):
    """`torch.nn.RMSNorm` computed at a level; same parameter, initialisation and state dict.

    Args:
        normalized_shape: the last dimensions of the input, over which all together it is normalised; int or ints.
        eps: added to the mean square; None for the eps of what PyTorch computes in, float32 or, for float64, itself.
        elementwise_affine: whether there is a weight, of ones at first.
        device, dtype: of the weight; dtype must be that of the input.
        level: as for `LayerNorm`.

    Shapes: the input is (..., *normalized_shape), the output as the input.

    Raises:
        ValueError: an unknown level, when made; an input that does not end in normalized_shape, when called.
        TypeError, ValueError: when called, as `kernels.rms_norm`.
    """

    def __init__(
        self,
        normalized_shape: int | list[int] | torch.Size,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        level: int | str | None = None,
    ) -> None:
        if level is not None:
            level_number(level)
        super().__init__(normalized_shape, eps, elementwise_affine, device, dtype)
        self.level = level

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, weight = flattened(x, self.normalized_shape, self.weight)
        eps = self.eps
        if eps is None:
            eps = torch.finfo(torch.float64 if x.dtype == torch.float64 else torch.float32).eps
        y = rms_norm(rows, weight, eps, self.level)
        return y if rows is x else y.view(x.shape)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, level={self.level!r}"


def flattened(input: torch.Tensor, shape: tuple[int, ...], *parameters: torch.Tensor | None) -> tuple[Any, ...]:
    """The input and the parameters with the dimensions of `shape` as one. ValueError: the input does not end in them."""
    dims = len(shape)
    if tuple(input.shape[-dims:]) != shape:
        raise ValueError(f"input: got shape {tuple(input.shape)}, expected (..., {str(shape)[1:]}")
    if dims == 1:
        return input, *parameters
    return input.flatten(-dims), *(one if one is None else one.flatten() for one in parameters)
