"""Weights in four bits: E2M1 codes, two of them in a byte, and a scale for each group of weights along the input features.

NVFP4 after NVIDIA's description of the format: groups of 16, an e4m3 scale each, and a float32 scale over all. MXFP4 after the
OCP Microscaling specification 1.0, section 6.3: groups of 32, and a power of two each, e8m0.
"""

from typing import NamedTuple

import torch

GROUPS = {"nvfp4": 16, "mxfp4": 32}
"""Weights that share a scale."""

E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
E2M1_LARGEST, E4M3_LARGEST = 6.0, 448.0


class Quantized(NamedTuple):
    """A matrix (N, K): `codes`, uint8 (N, K/2), two each, the first in the low half; `scales` (N, K/group), float8_e4m3fn or
    float8_e8m0fnu; `scale`, one float32 over all, 1 for mxfp4."""

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


def pack(codes: torch.Tensor) -> torch.Tensor:
    """(…, K) codes of 4 bits → (…, K/2) bytes, the first of two in the low half."""
    return codes[..., 0::2] | (codes[..., 1::2] << 4)


def unpack(packed: torch.Tensor) -> torch.Tensor:
    return torch.stack([packed & 15, packed >> 4], dim=-1).flatten(-2)


def quantize(weight: torch.Tensor, format: str) -> Quantized:
    """A matrix (N, K) of any floating dtype in one of GROUPS' formats; scales are computed in float32.

    Raises:
        ValueError: a format of another name; K is no multiple of its group; infinities or NaN.
    """
    if format not in GROUPS:
        raise ValueError(f"format: got {format!r}, expected one of {', '.join(GROUPS)}")
    group = GROUPS[format]
    if weight.shape[1] % group:
        raise ValueError(f"in_features: got {weight.shape[1]}, expected a multiple of {format}'s group, {group}")
    if not weight.isfinite().all():
        raise ValueError("weight: got infinities or NaN, expected finite values")
    groups = weight.detach().float().unflatten(1, (-1, group))
    largest, scale = groups.abs().amax(-1), torch.ones((), device=weight.device)
    if format == "nvfp4":
        scale = _or_one(largest.max() / (E2M1_LARGEST * E4M3_LARGEST))
        # Clamped: what a cast makes of values out of range depends on PyTorch's version.
        scales = (largest / E2M1_LARGEST / scale).clamp(max=E4M3_LARGEST).to(torch.float8_e4m3fn)
    else:
        exponent = torch.frexp(largest)[1] - 1 - 2  # of the largest weight, less that of 4, E2M1's highest power of two
        scales = torch.exp2(exponent.clamp(-127, 127).float()).to(torch.float8_e8m0fnu)
    steps = _or_one(scales.float() * scale)
    return Quantized(pack(to_e2m1((groups / steps[..., None]).flatten(1))), scales, scale)


def dequantize(quantized: Quantized, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """The matrix (N, K) that codes and scales stand for, computed in float32 and rounded to `dtype` once."""
    codes, scales, scale = quantized
    table = torch.tensor([*E2M1, *(-value for value in E2M1)], device=codes.device)
    values = table[unpack(codes).int()].unflatten(1, (scales.shape[1], -1))
    return (values * (scales.float() * scale)[..., None]).flatten(1).to(dtype)


def _or_one(scale: torch.Tensor) -> torch.Tensor:
    """What is divided by: 1 in the place of 0, as of a group of zeros, whose codes are 0 all the same."""
    return torch.where(scale > 0, scale, 1.0)
