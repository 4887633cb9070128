"""Weights in four bits and eight: codes, scales of groups, and two codes packed in a byte.

NVFP4 after NVIDIA's, MXFP4 after the OCP Microscaling specification 1.0 (section 6.3: the scale is the power of two below
the largest magnitude, by the format's own largest exponent). In int4 and e4m3 the largest magnitude is the largest code.
"""

from typing import NamedTuple

import torch

GROUPS = {"nvfp4": 16, "mxfp4": 32, "int4": 32, "e4m3": None}
"""Weights that share a scale, along the input features; None: a whole row."""

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
E2M1_LARGEST, E4M3_LARGEST, INT4_LARGEST = 6.0, 448.0, 7.0


class Quantized(NamedTuple):
    """A matrix (N, K): `codes`, uint8 (N, K/2) of two each or float8 (N, K); `scales` (N, K/group), float8_e4m3fn,
    float8_e8m0fnu, bfloat16 or float32; `scale`, one float32 over all, 1 but for nvfp4."""

    codes: torch.Tensor
    scales: torch.Tensor
    scale: torch.Tensor


def to_e2m1(x: torch.Tensor) -> torch.Tensor:
    """The codes, uint8 from 0 to 15, of the nearest of ±{0, .5, 1, 1.5, 2, 3, 4, 6}, ties to even codes; beyond 6 becomes 6.
    NaN has no code there, and becomes 0."""
    x = x.float()
    size, code = x.abs(), torch.zeros(x.shape, dtype=torch.uint8, device=x.device)
    for lower in range(7):
        middle = (E2M1[lower] + E2M1[lower + 1]) / 2
        code += (size > middle) if lower % 2 == 0 else (size >= middle)
    return code | (torch.signbit(x).to(torch.uint8) << 3)


def to_int4(x: torch.Tensor) -> torch.Tensor:
    """The codes, uint8 from 0 to 15 in two's complement, of the nearest integer from -8 to 7, ties to even; NaN becomes 0."""
    return x.float().nan_to_num(0.0).round().clamp(-8, 7).to(torch.int8).view(torch.uint8) & 15


def to_e4m3(x: torch.Tensor) -> torch.Tensor:
    """float8_e4m3fn, ties to even; beyond 448 becomes 448 on every version of PyTorch."""
    return x.float().clamp(-E4M3_LARGEST, E4M3_LARGEST).to(torch.float8_e4m3fn)


def pack(codes: torch.Tensor) -> torch.Tensor:
    """(…, K) codes of 4 bits → (…, K/2) bytes, the first of two in the low half."""
    return codes[..., 0::2] | (codes[..., 1::2] << 4)


def unpack(packed: torch.Tensor) -> torch.Tensor:
    return torch.stack([packed & 15, packed >> 4], dim=-1).flatten(-2)


def quantize(weight: torch.Tensor, format: str) -> Quantized:
    """A matrix (N, K) of any floating dtype in one of GROUPS' formats.

    Raises:
        ValueError: a format of another name; K is no multiple of its group.
    """
    if format not in GROUPS:
        raise ValueError(f"format: got {format!r}, expected one of {', '.join(GROUPS)}")
    columns = weight.shape[1]
    group = GROUPS[format] or columns
    if columns % group:
        raise ValueError(f"in_features: got {columns}, expected a multiple of {format}'s group, {group}")
    groups = weight.detach().float().unflatten(1, (-1, group))
    largest, scale = groups.abs().amax(-1), torch.ones((), device=weight.device)
    if format == "nvfp4":
        scale = _or_one(largest.max() / (E2M1_LARGEST * E4M3_LARGEST))
        scales = to_e4m3(largest / E2M1_LARGEST / scale)
    elif format == "mxfp4":
        exponent = torch.frexp(largest)[1] - 1 - 2  # of the largest weight, less that of 4, E2M1's highest power of two
        scales = torch.exp2(exponent.clamp(-127, 127).float()).to(torch.float8_e8m0fnu)
    elif format == "int4":
        scales = (largest / INT4_LARGEST).bfloat16()
    else:
        scales = largest / E4M3_LARGEST
    values = (groups / _or_one(scales.float() * scale)[..., None]).flatten(1)
    if format == "e4m3":
        return Quantized(to_e4m3(values), scales, scale)
    return Quantized(pack(to_int4(values) if format == "int4" else to_e2m1(values)), scales, scale)


def dequantize(quantized: Quantized, format: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The matrix (N, K) that codes and scales stand for, computed in float32 and rounded to `dtype` once."""
    codes, scales, scale = quantized
    if format == "e4m3":
        values = codes.float()
    elif format == "int4":
        values = (unpack(codes) ^ 8).float() - 8
    else:
        table = torch.tensor([*E2M1, *(-value for value in E2M1)], device=codes.device)
        values = table[unpack(codes).int()]
    steps = (scales.float() * scale)[..., None]
    return (values.unflatten(1, (scales.shape[1], -1)) * steps).flatten(1).to(dtype)


def _or_one(scale: torch.Tensor) -> torch.Tensor:
    """What is divided by: 1 in the place of 0, as of a group of zeros, whose codes are 0 all the same."""
    return torch.where(scale > 0, scale, 1.0)
