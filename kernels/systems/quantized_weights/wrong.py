"""Weights in four bits with the mistakes that people make with codes, scales, signs, and what is beside them."""

import copy
from collections.abc import Callable

import torch
from torch import nn

from kernels.precision import QuantizedLinear, quantize_weights
from kernels.precision.four_bits import pack, to_e2m1, unpack


def without_bias(model: nn.Sequential, format: str) -> None:
    quantize_weights(model, format)
    layer = model[0]
    assert isinstance(layer, QuantizedLinear)
    layer.bias = None  # type: ignore[assignment]


def without_gradient(model: nn.Sequential, format: str) -> None:
    quantize_weights(model, format)
    model.register_forward_pre_hook(lambda _, args: tuple(one.detach() for one in args))


def changed(change: Callable[[QuantizedLinear, torch.Tensor], None]) -> Callable[[nn.Sequential, str], None]:
    """Quantises, and then changes what is stored. `change` gets the layer and the weight as it was."""

    def make(model: nn.Sequential, format: str) -> None:
        weight = model[0].get_parameter("weight").detach().float()
        quantize_weights(model, format)
        layer = model[0]
        assert isinstance(layer, QuantizedLinear)
        change(layer, weight)

    return make


def swap_halves(layer: QuantizedLinear, weight: torch.Tensor) -> None:
    layer.codes = (layer.codes << 4) | (layer.codes >> 4)


def double_scales(layer: QuantizedLinear, weight: torch.Tensor) -> None:
    """MXFP4's, with the codes for them: nothing saturates, as with a scale that is rounded upwards."""
    if layer.format == "mxfp4":
        steps = 2 * layer.scales.view(torch.float8_e8m0fnu).float().repeat_interleave(32, 1)
        layer.codes, layer.scales = pack(to_e2m1(weight / steps)), layer.scales + 1


def layer_of(weight: torch.Tensor) -> nn.Linear:
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=False, device=weight.device)
    linear.weight.data = weight
    return linear


def truncate(layer: QuantizedLinear, weight: torch.Tensor) -> None:
    """Rounds toward zero."""
    codes, above = unpack(layer.codes), layer.dequantized(torch.float32).abs() > weight.abs()
    layer.codes = pack(codes - above.to(torch.uint8))


def drop_signs(layer: QuantizedLinear, weight: torch.Tensor) -> None:
    layer.codes = layer.codes & 0x77


def round_scale(layer: QuantizedLinear, weight: torch.Tensor) -> None:
    """Keeps NVFP4's scale over all in bfloat16, as casting the model would."""
    if layer.scale is not None:
        layer.scale = layer.scale.view(torch.float32).bfloat16().float().view(torch.int32)


def round_in_place(model: nn.Sequential, format: str) -> None:
    """Rounds the weights and keeps them as they were stored before: right numbers, and no byte saved."""
    rounded_model = nn.Sequential(copy.deepcopy(model[0]))
    quantize_weights(rounded_model, format)
    layer = rounded_model[0]
    assert isinstance(layer, QuantizedLinear)
    model[0] = layer_of(layer.dequantized(torch.float32))
