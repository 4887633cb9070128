"""Weights in four bits: bit for bit what ml_dtypes gives, on every value that bfloat16 has, and counted to the byte."""

import copy
import math
from collections.abc import Callable, Mapping

import torch
from torch import nn

from kernels.claims import Claim, Number
from kernels.figures import Picture
from kernels.measure import race
from kernels.precision import quantize_weights
from kernels.precision.four_bits import GROUPS
from kernels.system import Shown, System
from kernels.tolerance import compare

BITS = {
    "nvfp4": 4 + 8 / 16,
    "mxfp4": 4 + 8 / 32,
    "int4": 4 + 16 / 32,
    "e4m3": 8,
}  # a weight, its share of scales included


def stored_bytes(module: nn.Module) -> int:
    return sum(value.nbytes for value in module.state_dict().values())


def by_ml_dtypes(weight: torch.Tensor, format: str) -> torch.Tensor:
    """The weight as quantised by NumPy and ml_dtypes alone; float32."""
    import ml_dtypes
    import numpy as np

    group = GROUPS[format] or weight.shape[1]
    groups = weight.float().numpy().reshape(weight.shape[0], -1, group)
    largest = np.abs(groups).max(-1, keepdims=True)
    scale = np.float32(1)
    if format == "nvfp4":
        scale = largest.max() / np.float32(6 * 448)
        scales = (largest / np.float32(6) / scale).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    elif format == "mxfp4":
        exponent = np.floor(np.log2(np.where(largest > 0, largest, 1).astype(np.float64))) - 2
        scales = np.exp2(exponent).astype(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    elif format == "int4":
        scales = (largest / np.float32(7)).astype(ml_dtypes.bfloat16).astype(np.float32)
    else:
        scales = largest / np.float32(448)
    steps = scales * scale
    values = groups / np.where(steps > 0, steps, 1).astype(np.float32)
    if format == "int4":
        codes = np.rint(values).clip(-8, 7)
    else:
        kind, top = (ml_dtypes.float8_e4m3fn, 448) if format == "e4m3" else (ml_dtypes.float4_e2m1fn, 6)
        codes = values.clip(-top, top).astype(kind).astype(np.float32)
    return torch.from_numpy((codes * steps).reshape(weight.shape).astype(np.float32))


def check(make: Callable[[nn.Module, str], object], device: str) -> tuple[float, str | None]:
    """Every format on weights with outliers and a group of zeros: the values bit for bit, the bytes, the product."""
    worst = 0.0
    for format, bits in BITS.items():
        torch.manual_seed(0)
        linear = nn.Linear(64, 48, dtype=torch.bfloat16)
        with torch.no_grad():
            linear.weight.mul_(torch.logspace(-2, 2, 48)[:, None])
            linear.weight[3, 32:] = 0
            linear.weight[5, 7] = 40.0
            # A group that has every point between two codes, and the codes.
            linear.weight[9, :32] = torch.tensor(
                [0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, -6] * 2
            )
        expected = by_ml_dtypes(linear.weight.detach(), format)
        exact = nn.Linear(64, 48, dtype=torch.float64)
        exact.load_state_dict({"weight": expected.double(), "bias": linear.bias.double()})
        model = nn.Sequential(copy.deepcopy(linear)).to(device)
        make(model, format)
        eye = torch.eye(64, device=device)
        model[0].bias.data = model[0].bias.data.float()
        values = _values(model, eye)
        if not torch.equal(values, expected):
            return math.inf, f"{format}: {int((values != expected).sum())} weights differ from ml_dtypes'"
        size = stored_bytes(model) - linear.bias.numel() * 4
        allowed = int(linear.weight.numel() * bits / 8) + {"nvfp4": 4, "e4m3": 48 * 4}.get(format, 0)
        if size != allowed:
            return math.inf, f"{format}: the weight takes {size} bytes, expected {allowed}"
        x = torch.randn(7, 64)
        reference = exact(x.double())
        ratio, failure = compare(model(x.to(device)).detach().cpu(), reference, reference.float(), torch.float32)
        if failure:
            return ratio, f"{format}: {failure}"
        worst = max(worst, ratio)
    return worst, None


def _values(model: nn.Sequential, eye: torch.Tensor) -> torch.Tensor:
    """The layer's weights, asked of its outputs alone: a row of the identity picks a column."""
    bias, model[0].bias = model[0].bias, None
    try:
        return model(eye).detach().t().cpu()
    finally:
        model[0].bias = bias


def _twin(change: Callable[[torch.Tensor], torch.Tensor] = lambda weight: weight, **formats: str) -> Callable:
    """Quantises weights that were changed before, or in another format than was asked for."""

    def make(model: nn.Sequential, format: str) -> None:
        with torch.no_grad():
            model[0].weight.copy_(change(model[0].weight))
        quantize_weights(model, formats.get(format, format))

    return make


def codes_swapped(model: nn.Sequential, format: str) -> None:
    """Packs the first of two codes in the high half."""
    quantize_weights(model, format)
    if format != "e4m3":
        codes = model[0].codes
        model[0].codes = (codes << 4) | (codes >> 4)


def scales_to_the_top(model: nn.Sequential, format: str) -> None:
    """Doubles MXFP4's scales, so that nothing saturates, as a scale rounded upwards would."""
    if format == "mxfp4":
        quantize_weights(model, format)
        model[0].scales = (2 * model[0].scales.float()).to(model[0].scales.dtype)
    else:
        quantize_weights(model, format)


def kept_in_float(model: nn.Sequential, format: str) -> None:
    """Rounds the weights and keeps them as they were stored before: right numbers, and no byte saved."""
    bits = nn.Sequential(copy.deepcopy(model[0]))
    quantize_weights(bits, format)
    model[0].float()
    model[0].weight.data = bits[0].dequantized(torch.float32)


def memory(device: str) -> Mapping[str, Number]:
    """Exact: the bytes of an MLP's weights in bfloat16 over those that are stored, scales included."""
    found = {}
    for format in GROUPS:
        model = nn.Sequential(nn.Linear(1024, 4096, bias=False), nn.Linear(4096, 1024, bias=False)).bfloat16()
        before = stored_bytes(model)
        quantize_weights(model, format)
        times = before / stored_bytes(model)
        found[format] = Number(times, times, times, "×")
    return found


def speed(device: str) -> Mapping[str, Number]:
    """Decoding: one row times a matrix, whose bytes decide. The compiler fuses dequantising with the product."""
    found, same = {}, torch.zeros(1)  # the results differ by their rounding: the race compares `same`
    for rows, columns in ((4096, 4096), (14336, 4096), (8192, 8192)):
        dense = nn.Linear(columns, rows, bias=False, device=device, dtype=torch.bfloat16)
        x = torch.randn(columns, device=device, dtype=torch.bfloat16)

        def timed(fn: Callable, x: torch.Tensor = x) -> Callable[[], torch.Tensor]:
            def once() -> torch.Tensor:
                with torch.no_grad():
                    fn(x)
                return same

            return once

        contestants = {"bfloat16": timed(dense)}
        for format in ("nvfp4", "mxfp4", "int4"):
            model = nn.Sequential(copy.deepcopy(dense))
            quantize_weights(model, format)
            layer = model[0]
            product = torch.compile(
                lambda x, layer=layer: (layer.dequantized(torch.float32) * x.float()).sum(1), dynamic=False
            )
            contestants[format] = timed(product)
            if columns == 4096 and rows == 4096:
                contestants[f"{format}, not fused"] = timed(layer)
        raced = race(contestants, device, 4)
        found |= {
            f"{name}, {rows} × {columns}": raced.ratio("bfloat16", name) for name in contestants if name != "bfloat16"
        }
    return found


def demo(device: str, quick: bool) -> Shown:
    import plotly.graph_objects as go

    _, failure = check(quantize_weights, device)
    torch.manual_seed(0)
    linear = nn.Linear(256 if quick else 1024, 256, bias=False, device=device, dtype=torch.bfloat16)
    bits, errors = {}, {}
    for format in GROUPS:
        model = nn.Sequential(copy.deepcopy(linear))
        quantize_weights(model, format)
        bits[format] = 8 * stored_bytes(model) / linear.weight.numel()
        weight = linear.weight.detach().float()
        errors[format] = float((model[0].dequantized(torch.float32) - weight).norm() / weight.norm())
    points = go.Scatter(
        x=list(bits.values()),
        y=list(errors.values()),
        text=list(GROUPS),
        mode="markers+text",
        textposition="top center",
    )
    layout = {
        "xaxis": {"title": "bits a weight, scales included"},
        "yaxis": {"title": "relative error", "rangemode": "tozero"},
    }
    said = ", ".join(f"{format} {bits[format]:.2f} bits, error {errors[format]:.3f}" for format in GROUPS)
    return Shown(
        f"a weight of {linear.weight.numel():,} numbers in {len(GROUPS)} formats, packed",
        failure or "the weights equal ml_dtypes' bit for bit, and the product the float64 one of the same weights",
        said,
        Picture(go.Figure(points, layout), f"Relative error by bits a weight: {said}."),
    )


SYSTEM = System(
    name="quantized_weights",
    summary="linear layers that keep their weights packed in four bits, with a scale for each group",
    modules=("kernels.precision.weights", "kernels.precision.four_bits"),
    make=quantize_weights,
    proof="ml_dtypes and NumPy, bit for bit; the bytes counted; the product in float64",
    check=check,
    wrong={
        "the two codes of a byte swapped": codes_swapped,
        "MXFP4's scale a power too high": scales_to_the_top,
        "nothing is packed": kept_in_float,
        "weights rounded to e4m3 first": _twin(
            lambda weight: weight.clamp(-448, 448).to(torch.float8_e4m3fn).to(weight.dtype)
        ),
        "NVFP4 asked for, MXFP4 given": _twin(nvfp4="mxfp4"),
    },
    demo=demo,
    from_torch=("the matrix product", "casts to float8 round"),
    claims=(
        Claim(
            name="fp4-memory-4x",
            text="FP4 4× memory",
            source="optimization framework, ultra-low precision",
            conditions="none given",
            verdict="partly",
            reason="the scales of the groups take bits as well; against float32 it is more",
            evidence="exact on a CPU",
            experiment=memory,
        ),
        Claim(
            name="fp4-speed",
            text="FP4 1.4× speed",
            source="optimization framework, ultra-low precision",
            conditions="none given",
            verdict="not yet measured",
            reason="a GPU without tensor cores for four bits can gain only where the bytes of weights decide, as in decoding",
            experiment=speed,
            devices=("cuda",),
        ),
    ),
)
