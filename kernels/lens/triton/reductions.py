"""`tl.reduce` with a function of the kernel's own, in Triton's interpreter.

There it goes from one element to the next, in Python: a long row takes seconds, and gathers more error of rounding than in
any order that a GPU takes. Here neighbours are combined, all at once, then what they became, as often as it takes.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import triton
from triton.runtime import interpreter

_one_by_one = interpreter.ReduceOps.generic_reduce


def in_pairs(self: interpreter.ReduceOps, given: tuple[Any, ...]) -> list[Any]:
    """In place of `ReduceOps.generic_reduce`. Neighbours stay in their order, since the function may not commute."""
    tensors, axis = self.unravel(given, self.axis)
    kinds = [one.dtype for one in tensors]
    parts = [np.moveaxis(one.handle.data, axis, 0) for one in tensors]
    while len(parts[0]) > 1:
        left, right = (
            [
                self.to_tensor(np.ascontiguousarray(part[begin::2]), kind)
                for part, kind in zip(parts, kinds, strict=True)
            ]
            for begin in (0, 1)
        )
        try:
            with mock.patch.object(triton.language.tensor, "__bool__", _scalar_bool):
                combined = self.combine_fn.fn(*left, *right)
        except Exception:  # a function for numbers alone, such as one with an `if`
            return _one_by_one(self, given)
        combined = combined if isinstance(combined, tuple) else (combined,)
        parts = [self.to_tensor(one.handle.data, kind).handle.data for one, kind in zip(combined, kinds, strict=True)]
    results = [part[0] for part in parts]
    if self.keep_dims:
        ones_shape = (1,) * given[0].handle.data.ndim
        results = [np.reshape(one, ones_shape) if self.axis is None else np.expand_dims(one, axis) for one in results]
    return [self.to_tensor(one, kind) for one, kind in zip(results, kinds, strict=True)]


def _scalar_bool(tensor: triton.language.tensor) -> bool:
    """Whether a number is true. The interpreter takes any block for true."""
    return bool(tensor.handle.data.item())
