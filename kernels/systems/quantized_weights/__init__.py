"""Weights in four bits: bit for bit those found by their mantissas in float64, and counted to the byte."""

import copy
import math
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import nn

from kernels.claims import Claim, Number
from kernels.figures import Picture
from kernels.measure import race
from kernels.precision import QuantizedLinear, quantize_weights
from kernels.precision.four_bits import GROUPS
from kernels.precision.rounding import rounded
from kernels.system import Shown, System
from kernels.systems.quantized_weights import wrong
from kernels.tolerance import compare

BITS = {"nvfp4": 4 + 8 / 16, "mxfp4": 4 + 8 / 32}  # a weight's, its share of the scales included


def stored_bytes(module: nn.Module) -> int:
    return sum(value.nbytes for value in module.state_dict().values())


def reference(weight: torch.Tensor, format: str) -> torch.Tensor:
    """The values that the stored weights stand for, float32: no cast to 8 bits, no code and no table of E2M1 is used."""
    groups = weight.float().reshape(weight.shape[0], -1, GROUPS[format])
    largest = groups.abs().amax(-1, keepdim=True)
    if format == "nvfp4":
        overall = largest.max() / (6 * 448)
        steps = rounded(largest / 6 / overall, "e4m3").float() * overall
    else:
        steps = torch.exp2(torch.log2(largest.double()).floor() - 2).float()
    values = rounded(torch.where(steps > 0, groups / steps, 0), "e2m1").float() * steps
    return values.reshape(weight.shape)


def check(make: Callable[[nn.Module, str], object], device: str) -> tuple[float, str | None]:
    """Both formats on weights with an outlier, a group of zeros and every tie: the values, the bytes, the product, and the
    values again after the model was cast."""
    worst = 0.0
    for format, bits in BITS.items():
        torch.manual_seed(0)
        linear = nn.Linear(64, 48, bias=False, dtype=torch.bfloat16)
        with torch.no_grad():
            linear.weight.mul_(torch.logspace(-2, 2, 48)[:, None])
            linear.weight[3, 32:] = 0
            linear.weight[5, 7] = 40.0
            ties = [0, 0.25, 0.5, 0.75, 1, -1.25, 1.5, 1.75, -2, 2.5, 3, 3.5, 4, 5, -5, 6]
            linear.weight[9, :32] = torch.tensor(ties * 2)
        expected = reference(linear.weight.detach(), format)
        model = nn.Sequential(copy.deepcopy(linear)).to(device)
        make(model, format)
        size, allowed = stored_bytes(model), int(linear.weight.numel() * bits / 8) + (4 if format == "nvfp4" else 0)
        if size != allowed:
            return math.inf, f"{format}: the weight takes {size} bytes, expected {allowed}"
        x = torch.randn(7, 64)
        with torch.no_grad():
            got, product = model(x.to(device)).cpu(), F.linear(x.double(), expected.double())
            ratio, failure = compare(got, product, F.linear(x, expected), torch.float32)
            if failure:
                return ratio, f"{format}: {failure}"
            for cast in ("kept", "cast to bfloat16"):
                values = model(torch.eye(64, device=device)).t().cpu()  # a row of the identity picks a column
                if not torch.equal(values, expected):
                    return math.inf, f"{format}, {cast}: {int((values != expected).sum())} weights differ"
                model.bfloat16()
        if failure := beside_the_weight(make, format, device):
            return math.inf, f"{format}: {failure}"
        worst = max(worst, ratio)
    return worst, None


def beside_the_weight(make: Callable[[nn.Module, str], object], format: str, device: str) -> str | None:
    """What is wrong with the bias, or with the gradient of the input."""
    model = nn.Sequential(nn.Linear(64, 8)).to(device)
    bias = model[0].get_parameter("bias")
    make(model, format)
    x = torch.zeros(3, 64, device=device, requires_grad=True)
    y = model(x)
    if not torch.equal(y, bias.expand(3, 8)):
        return "zeros do not give the bias"
    columns = model(torch.eye(64, device=device)) - bias
    gradient = torch.autograd.grad(y.sum(), x, allow_unused=True)[0]
    if gradient is None or not torch.allclose(gradient, columns.sum(1).expand(3, 64), atol=1e-4):
        return "the gradient of the input is not the weight’s sums"
    return None


def memory(device: str) -> Mapping[str, Number]:
    """Exact: the bytes of an MLP's weights in bfloat16 over those that are stored, scales included."""
    found = {}
    for format in GROUPS:
        model = nn.Sequential(nn.Linear(1024, 4096, bias=False), nn.Linear(4096, 1024, bias=False)).bfloat16()
        before = stored_bytes(model)
        quantize_weights(model, format)
        times = before / stored_bytes(model)
        found[format] = Number.exact(times, "×")
    return found


def speed(device: str) -> Mapping[str, Number]:
    """Decoding: one row times a matrix, whose bytes decide. The compiler fuses dequantising with the product."""
    found: dict[str, Number] = {}
    same = torch.zeros(1)  # the results differ by their rounding: the race compares `same`
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
        for format in GROUPS:
            layer = QuantizedLinear(dense, format)
            fused = torch.compile(
                lambda x, layer=layer: (layer.dequantized(torch.float32) * x.float()).sum(1), dynamic=False
            )
            contestants |= {format: timed(fused), f"{format}, not fused": timed(layer)}
        raced = race(contestants, device, 4)
        names = [name for name in contestants if name != "bfloat16"]
        found |= {f"{name}, {rows} × {columns}": raced.ratio("bfloat16", name) for name in names}
    return found


def demo(device: str, quick: bool) -> Shown:
    import plotly.graph_objects as go

    torch.manual_seed(0)
    linear = nn.Linear(256 if quick else 1024, 256, bias=False, device=device, dtype=torch.bfloat16)
    weight, saved, errors = linear.weight.detach().float(), {}, {}
    for format in GROUPS:
        layer = QuantizedLinear(linear, format)
        saved[format] = 8 * stored_bytes(layer) / weight.numel()
        errors[format] = float((layer.dequantized(torch.float32) - weight).norm() / weight.norm())
    marks = go.Bar(
        x=list(GROUPS), y=list(errors.values()), text=[f"{bits:.2f} bits a weight" for bits in saved.values()]
    )
    said = ", ".join(f"{format} {saved[format]:.2f} bits, error {errors[format]:.3f}" for format in GROUPS)
    return Shown(
        f"a weight of {weight.numel():,} numbers in {len(GROUPS)} formats, packed",
        "the weights equal those rounded by their mantissas bit for bit, and their product the float64 one",
        said,
        Picture(go.Figure(marks, {"yaxis": {"title": "relative error"}}), f"Relative error of each format: {said}."),
    )


SYSTEM = System(
    name="quantized_weights",
    summary="linear layers that keep their weights packed in four bits, with a scale for each group",
    modules=("kernels.precision.weights", "kernels.precision.four_bits"),
    make=quantize_weights,
    proof="values rounded by their mantissas in float64, bit for bit; the bytes counted; the product in float64",
    check=check,
    wrong={
        "the bias is dropped": wrong.without_bias,
        "the input has no gradient": wrong.without_gradient,
        "the two codes of a byte swapped": wrong.changed(wrong.swap_halves),
        "MXFP4's scale a power too high": wrong.changed(wrong.double_scales),
        "rounded toward zero": wrong.changed(wrong.truncate),
        "signs are dropped": wrong.changed(wrong.drop_signs),
        "the scale over all in bfloat16": wrong.changed(wrong.round_scale),
        "nothing is packed": wrong.round_in_place,
        "NVFP4 asked for, MXFP4 given": lambda model, format: quantize_weights(model, "mxfp4"),
    },
    demo=demo,
    from_torch=("the matrix product", "casts to float8 round the scales"),
    claims=(
        Claim(
            name="fp4-memory-4x",
            text="FP4 4× memory",
            source="optimization framework, ultra-low precision",
            conditions="none given",
            verdict="partly",
            reason="the scales of the groups take bits as well; against single precision it is more",
            evidence="exact on a CPU",
            experiment=memory,
        ),
        Claim(
            name="fp4-speed",
            text="FP4 1.4× speed",
            source="optimization framework, ultra-low precision",
            conditions="none given",
            verdict="refuted",
            reason="without tensor cores for four bits, and as built here: unpacking takes longer than the smaller weights "
            "save",
            evidence="measured",
            experiment=speed,
            devices=("cuda",),
        ),
    ),
)
