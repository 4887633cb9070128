"""A model that sees bucket lengths alone, whatever the lengths of its inputs."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from kernels.shapes.buckets import Buckets, seen_tokens


class Bucketed:
    """Calls a model on inputs padded to their bucket, and cuts its output to their length. Safe to call from several threads.

    Args:
        model: of tensors (B, S, …) and a boolean `mask` of shape (B, S), True where a token is no padding; it must not let
            padding reach real positions. Its output is (B, S, …).
        buckets: of S.
        value: what is padded with.
    """

    def __init__(self, model: Callable[..., torch.Tensor], buckets: Buckets, value: float = 0) -> None:
        self.model, self.buckets, self.value = model, buckets, value
        self._seen: Counter[int] = Counter()
        self._lock = threading.Lock()

    def __call__(self, x: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        if x.dim() < 2:
            raise ValueError(f"x: got shape {tuple(x.shape)}, expected (B, S, …)")
        length = x.shape[1]
        with self._lock:
            self._seen[length] += 1
            buckets = self.buckets
        bucket = buckets.of(length)
        mask = torch.arange(bucket, device=x.device) < length
        # Contiguous: a slice's strides would make the compiler compile once more.
        padded = F.pad(x, (0, 0) * (x.dim() - 2) + (0, bucket - length), value=self.value).contiguous()
        return self.model(padded, mask=mask.expand(x.shape[0], bucket).contiguous(), **kwargs)[:, :length]

    def refit(self, **options: Any) -> Buckets:
        """Choose the buckets again, from the lengths of the calls so far, by `Buckets.fit` with these options."""
        with self._lock:
            self.buckets = Buckets.fit(self._seen.elements(), **options)
            return self.buckets

    def report(self) -> dict[str, float]:
        """Of the calls so far: how many, how many different lengths and how many buckets were met, padding as a part of the
        tokens, and how many times fewer tokens than with all padded to the longest bucket."""
        with self._lock:
            seen, buckets = Counter(self._seen), self.buckets
        if not seen:
            return {"calls": 0, "lengths": 0, "buckets": 0, "padding": 0.0, "fewer": 1.0}
        padded = sum(buckets.of(length) * times for length, times in seen.items())
        longest = buckets.lengths[-1] * seen.total()
        return {
            "calls": seen.total(),
            "lengths": len(seen),
            "buckets": len({buckets.of(length) for length in seen}),
            "padding": padded / seen_tokens(seen) - 1,
            "fewer": longest / padded,
        }
