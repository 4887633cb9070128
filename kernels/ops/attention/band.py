"""Which keys a query sees: a band of them, with one form for full, causal and sliding-window attention.

The last query stands at the last key, as it does where keys of earlier positions are kept: query i is at place p = i + KV - Q
among the keys, and sees key j where

    -left <= j - p <= right
"""

import torch


def band(causal: bool, window: int | None, Q: int, KV: int) -> tuple[int, int]:
    """(left, right): how many keys before its own place a query sees, and how many after it."""
    all_of_them = Q + KV
    left = all_of_them if window is None else min(window - 1, all_of_them)
    return left, 0 if causal else left


def hidden(causal: bool, window: int | None, Q: int, KV: int, device: torch.device) -> torch.Tensor:
    """Q×KV booleans: true where a query does not see a key."""
    left, right = band(causal, window, Q, KV)
    places = torch.arange(KV - Q, KV, device=device)
    apart = torch.arange(KV, device=device) - places.unsqueeze(-1)
    return (apart < -left) | (apart > right)
