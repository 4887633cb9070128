"""Linear layers that multiply in 8 bits: e4m3 in the forward, e5m2 for gradients, scales that make them fit.

After "FP8 Formats for Deep Learning" (Micikevicius et al., 2022) and Transformer Engine's delayed scaling. Weights, their
gradients and the optimizer keep their dtype: only what the three products read is in 8 bits.
"""

from typing import Any, NamedTuple

import torch
from torch import nn

from kernels.modules import Swapped
from kernels.precision.replacing import replace_linears

FORMATS = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
SCALINGS = ("tensor", "row", "delayed")
HISTORY = 16  # steps that a delayed scale looks back on
HEADROOM = 2.0  # of a delayed scale: a power of two costs no bit of the mantissa
MULTIPLE = 16  # of what tensor cores multiply in 8 bits


class Float8(NamedTuple):
    """A matrix in 8 bits: `codes` times `scale`, which is one float32, or one a row or a column."""

    codes: torch.Tensor
    scale: torch.Tensor

    def t(self) -> "Float8":
        return Float8(self.codes.t(), self.scale.t())


def quantize(x: torch.Tensor, format: str, limit: torch.Tensor) -> Float8:
    """Scale so that ±limit, float32 and of a shape that broadcasts, is the format's largest; what lies beyond becomes that.

    Clamped before the cast: what a cast makes of values out of range depends on PyTorch's version.
    """
    dtype = FORMATS[format]
    largest = torch.finfo(dtype).max
    scale = (limit / largest).clamp(min=torch.finfo(torch.float32).tiny)
    return Float8((x.float() / scale).clamp(-largest, largest).to(dtype), scale)


def multiply(a: Float8, b: Float8, dtype: torch.dtype) -> torch.Tensor:
    """(M, K) times (K, N). With a scale a row, tensor cores give bfloat16 only, so it is rounded to that first."""
    codes = a.codes.contiguous(), b.codes.t().contiguous().t()
    if not a.scale.dim():
        return torch._scaled_mm(*codes, a.scale, b.scale, out_dtype=dtype)
    rows, columns = a.scale.flatten()[:, None], b.scale.flatten()[None]
    if a.codes.is_cuda:
        return torch._scaled_mm(*codes, rows, columns, out_dtype=torch.bfloat16).to(dtype)
    one = torch.ones(())  # on a CPU, PyTorch before 2.13 takes no scale a row
    return (torch._scaled_mm(*codes, one, one, out_dtype=torch.float32) * rows * columns).bfloat16().to(dtype)


class Float8Linear(nn.Linear):
    """nn.Linear whose three products, one in the forward and two in the backward, multiply in 8 bits.

    Args:
        forward: of inputs and weights: "e4m3", since tensor cores do not multiply e5m2 by e5m2.
        backward: of the incoming gradients, "e5m2" or "e4m3".
        scaling: "tensor", by the largest magnitude now; "row", the same for each row of a product's first factor and each
            column of its second; "delayed", by the largest magnitude of the last 16 calls, which needs no pass of its own.

    Its state dict is nn.Linear's; the histories of delayed scaling are not stored.

    Raises:
        ValueError: a format or scaling of another name; features, or the rows of an input to train on, that are no multiple
            of 16.
    """

    overflowed: torch.Tensor

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        forward: str = "e4m3",
        backward: str = "e5m2",
        scaling: str = "tensor",
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        for name, got, known in (
            ("forward", forward, ("e4m3",)),
            ("backward", backward, tuple(FORMATS)),
            ("scaling", scaling, SCALINGS),
        ):
            if got not in known:
                raise ValueError(f"{name}: got {got!r}, expected one of {', '.join(known)}")
        for name, size in (("in_features", in_features), ("out_features", out_features)):
            if size % MULTIPLE:
                raise ValueError(f"{name}: got {size}, expected a multiple of {MULTIPLE}")
        super().__init__(in_features, out_features, bias, device, dtype)
        self.formats = {"input": forward, "weight": forward, "gradient": backward}
        self.scaling = scaling
        device = self.weight.device
        self.register_buffer("overflowed", torch.zeros((), dtype=torch.int64, device=device), persistent=False)
        for role in self.formats:
            self.register_buffer(f"{role}_history", torch.zeros(HISTORY, device=device), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1])
        if rows.shape[1] != self.in_features:
            raise ValueError(f"x: got {rows.shape[1]} features, expected in_features, {self.in_features}")
        if rows.shape[0] % MULTIPLE and torch.is_grad_enabled() and self.weight.requires_grad:
            raise ValueError(f"x: got {rows.shape[0]} rows to train on, expected a multiple of {MULTIPLE}")
        y = Products.apply(rows, self.weight, self).unflatten(0, x.shape[:-1])
        return y if self.bias is None else y + self.bias

    def cast(self, x: torch.Tensor, role: str, dim: int = 1) -> Float8:
        """A matrix in 8 bits; with a scale a row, `dim` is the one that the product sums over."""
        size = x.detach().abs().nan_to_num_(nan=0.0, posinf=0.0)
        limit = (size.amax(dim, keepdim=True) if self.scaling == "row" else size.amax()).float()
        if self.scaling == "delayed":
            history = getattr(self, f"{role}_history")
            now, limit = limit, HEADROOM * history.max()
            limit = torch.where(limit > 0, limit, now)
            history.copy_(torch.cat([now[None], history[:-1]]))
        if dim == 1:  # along the other, the same values are met again
            self.overflowed += (~(x.abs() <= limit)).sum()
        return quantize(x, self.formats[role], limit)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self.formats['input']}, {self.formats['gradient']}, scaling={self.scaling!r}"


class Products(torch.autograd.Function):
    """y = x Wᵀ; then dx = dy W and dW = dyᵀ x."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, layer: Float8Linear) -> torch.Tensor:
        ctx.layer, ctx.dtypes = layer, (x.dtype, weight.dtype)
        x8, w8 = layer.cast(x, "input"), layer.cast(weight, "weight")
        # A scale a row does not fit the backward's products, which sum over other dimensions.
        ctx.save_for_backward(*((x, weight) if layer.scaling == "row" else (*x8, *w8)))
        return multiply(x8, w8.t(), x.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        layer, (dy,) = ctx.layer, gradients
        g8 = layer.cast(dy, "gradient")
        if layer.scaling == "row":
            x, weight = ctx.saved_tensors
            x8, w8 = layer.cast(x, "input", 0), layer.cast(weight, "weight", 0)
            g8_columns = layer.cast(dy, "gradient", 0)
        else:
            x8, w8, g8_columns = Float8(*ctx.saved_tensors[:2]), Float8(*ctx.saved_tensors[2:]), g8
        dx = multiply(g8, w8, ctx.dtypes[0]) if ctx.needs_input_grad[0] else None
        dw = multiply(g8_columns.t(), x8, ctx.dtypes[1]) if ctx.needs_input_grad[1] else None
        return dx, dw, None


def convert_to_float8(
    model: nn.Module, forward: str = "e4m3", backward: str = "e5m2", scaling: str = "tensor"
) -> Swapped:
    """Put a Float8Linear, with the same parameters, in place of every nn.Linear; the model is changed in place.

    Args:
        forward, backward, scaling: as Float8Linear's.

    Returns:
        the layers that were converted, and those that were left, with the reason: sizes that are no multiples of 16.

    Raises:
        ValueError: a format or scaling of another name. TypeError: the model itself is an nn.Linear.
    """
    Float8Linear(MULTIPLE, MULTIPLE, True, forward, backward, scaling)  # raises by name before anything is changed

    def make(linear: nn.Linear) -> nn.Module:
        sizes = linear.in_features, linear.out_features, linear.bias is not None
        weight = linear.weight
        new = Float8Linear(*sizes, forward, backward, scaling, weight.device, weight.dtype)
        new.weight, new.bias = weight, linear.bias
        return new

    return replace_linears(model, make)


def convert_back(model: nn.Module) -> Swapped:
    """Put an nn.Linear, with the same parameters, in place of every Float8Linear; the model is changed in place."""

    def make(linear: nn.Linear) -> nn.Module:
        sizes = linear.in_features, linear.out_features, linear.bias is not None
        new = nn.Linear(*sizes, device=linear.weight.device, dtype=linear.weight.dtype)
        new.weight, new.bias = linear.weight, linear.bias
        return new

    return replace_linears(model, make, Float8Linear)


def overflows(model: nn.Module) -> dict[str, int]:
    """How many values did not fit since the last call, by layer; empty where all did. A step that has some is to be skipped.

    With delayed scaling a value overflows that is more than twice what the last 16 calls had; with every scaling what is
    infinite or NaN. Waits for the GPU once.
    """
    layers: dict[str, Float8Linear] = {
        name: module for name, module in model.named_modules() if isinstance(module, Float8Linear)
    }
    if not layers:
        return {}
    counts = torch.stack([layer.overflowed for layer in layers.values()]).tolist()
    for layer in layers.values():
        layer.overflowed.zero_()
    return {name: count for name, count in zip(layers, counts, strict=True) if count}
