"""Allocations with the mistakes that people make with rounding, sizes and Fisher information."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from kernels.precision import allocate_bits, allocation
from kernels.precision.allocation import cheapest, fisher
from kernels.precision.evenly import evenly


def with_part(name: str, instead: Any) -> Callable[..., dict[str, int]]:
    """Allocates with a part of `kernels.precision.allocation` replaced."""

    def make(model: nn.Module, batch: torch.Tensor, bits: float, by: str) -> dict[str, int]:
        with patch.object(allocation, name, instead):
            return allocate_bits(model, batch, bits, by)

    return make


def clipped_nowhere(weight: torch.Tensor, bits: int) -> torch.Tensor:
    with patch("kernels.precision.evenly.SHARES", (1.0,)):
        return evenly(weight, bits)


def toward_zero(weight: torch.Tensor, bits: int) -> torch.Tensor:
    with patch("torch.Tensor.round", torch.Tensor.trunc):
        return evenly(weight, bits)


def by_layers(costs: Any, sizes: Mapping[str, int], bits: float) -> dict[str, int]:
    return cheapest(costs, dict.fromkeys(sizes, 1), bits)


def by_totals(costs: Mapping[str, Sequence[float]], sizes: Mapping[str, int], bits: float) -> dict[str, int]:
    return cheapest({name: [cost * sizes[name] for cost in of] for name, of in costs.items()}, sizes, bits)


def not_squared(*of: Any) -> dict[str, torch.Tensor]:
    return {name: one.sqrt() for name, one in fisher(*of).items()}


def likeliest_labels(*of: Any) -> dict[str, torch.Tensor]:
    def likeliest(share: torch.Tensor, draws: int, **options: Any) -> torch.Tensor:
        return share.argmax(-1, keepdim=True).expand(-1, draws)

    with patch("torch.multinomial", likeliest):
        return fisher(*of)
