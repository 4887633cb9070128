"""A launch for so many heads that an element of y has a place of more than 31 bits: what its last program would store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from kernels.grading.exercise import Property, Trial
from kernels.grading.labs.attention import products
from kernels.grading.python import large

_H, _M, _N, _D = 65_000, 600, 16, 64


def observed(function: Callable, args: Mapping[str, Any]) -> tuple[Any, dict]:
    """As `products.observed`, and "large": what is launched for many heads."""
    result, facts = products.observed(function, args)
    if args["q"].shape[1] * args["k"].shape[1] > 1:
        return result, facts
    q, k = (torch.empty(_H, rows, _D, dtype=torch.float16, device="meta") for rows in (_M, _N))
    call = {"q": q, "k": k, "v": k, "causal": False}
    return result, facts | {"large": large.launched(function, call, runs="last")}


def stored_inside(name: str, hint: str) -> Property:
    """The last of many heads is stored where it lies."""

    def broken(trials: Sequence[Trial]) -> str | None:
        for launch in (trial.facts.get("large") for trial in trials):
            if isinstance(launch, str):
                return f"{launch}\n(with H = {_H}, M = {_M}, D = {_D})"
            if launch and launch.outside:
                return (
                    f"the last program stores {launch.outside:,} elements outside of y and lse\n"
                    f"(with H = {_H}, M = {_M}, D = {_D}: more than 2³¹ elements)"
                )
        return None

    return Property(name, broken, "costs", hint)
