"""Norms as modules: in place of PyTorch's own, with a level to choose."""

import torch

from kernels.operation import level_number
from kernels.ops.layer_norm import layer_norm


class LayerNorm(torch.nn.LayerNorm):
    """`torch.nn.LayerNorm` computed at a level; same parameters, initialisation and state dict.

    Args:
        normalized_shape: the last dimensions of the input, over which all together it is normalised; int or ints.
        eps: added to the variance.
        elementwise_affine: whether there are a weight, of ones at first, and a bias.
        bias: whether there is a bias, of zeros at first; only with elementwise_affine.
        device, dtype: of weight and bias; dtype must be that of the input, as torch's own kernels want it.
        level: 1 to 5 or "native", "torchscript", "compiled", "triton", "cuda"; None for native on a CPU and Triton
            on a GPU, by where the input is.

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
        dims = len(self.normalized_shape)
        if tuple(input.shape[-dims:]) != self.normalized_shape:
            raise ValueError(f"input: got shape {tuple(input.shape)}, expected (..., {str(self.normalized_shape)[1:]}")
        if dims == 1:
            return layer_norm(input, self.weight, self.bias, self.eps, self.level)
        weight, bias = (tensor if tensor is None else tensor.flatten() for tensor in (self.weight, self.bias))
        return layer_norm(input.flatten(-dims), weight, bias, self.eps, self.level).view(input.shape)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, level={self.level!r}"
