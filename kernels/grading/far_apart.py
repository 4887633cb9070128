"""Tensors with elements so far apart that their index needs 64 bits, in memory that only what is touched takes."""

from __future__ import annotations

import math
import mmap
from typing import Any

import torch

BEYOND = 5 << 30  # elements: not even an unsigned int counts them
_NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux: pages that nothing touches need not be there
_ALIGNED = 256  # elements


def ends_only(blocks: int, **shapes: tuple[int, ...]) -> dict[str, Any]:
    """For a `Call` of so many blocks, of which the first and the last run, as do their shares of the tensors of these names: of
    a tensor of two shares, of such a shape each, the second lies where the last block's does."""
    inner = {name: torch.empty(shape, device="meta").stride() for name, shape in shapes.items()}
    strides = {name: ((blocks - 1) * math.prod(shape), *inner[name]) for name, shape in shapes.items()}
    return {"strides": strides, "ends_only": True}


def far_apart(values: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """A copy with these strides, in elements. As much memory lies before it as after: an index that has become negative is
    an address in there."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(values.shape, strides, strict=True))
    half = -(-extent // _ALIGNED) * _ALIGNED
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    memory = mmap.mmap(-1, 2 * half * values.element_size(), flags=flags)
    whole = torch.frombuffer(memory, dtype=values.dtype)
    return whole.as_strided(values.shape, strides, half).copy_(values)
