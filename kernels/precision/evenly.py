"""Weights as evenly spaced values around 0, in 2 to 8 bits, with a scale for each group of them."""

import torch

WIDTHS = range(2, 9)
"""Bits that a weight may have."""

GROUP = 32
"""Neighbours along the input features that share a scale; a row's last group may be smaller."""

SHARES = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Of a group's largest magnitude: where the range of its values may end. What lies beyond is clipped."""


def evenly(weight: torch.Tensor, bits: int) -> torch.Tensor:
    """Each weight as the nearest of 2^bits - 1 values; of the ranges in SHARES, each group has that with the least error.

    weight: (N, K) of any floating dtype, which the result has as well; computed in float32.
    """
    return torch.cat([_group(group.float(), 2 ** (bits - 1) - 1) for group in weight.split(GROUP, 1)], 1).to(weight)


def _group(group: torch.Tensor, most: int) -> torch.Tensor:
    largest = group.abs().amax(1, keepdim=True)
    best, least = torch.zeros_like(group), torch.full_like(largest, torch.inf)
    for share in SHARES:
        step = share * largest / most
        step = torch.where(step > 0, step, 1)  # of a group of zeros
        values = (group / step).round().clamp(-most, most) * step
        error = (values - group).square().sum(1, keepdim=True)
        best = torch.where(error < least, values, best)
        least = torch.minimum(error, least)
    return best
