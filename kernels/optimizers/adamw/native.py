"""Levels 1 to 3: a step of AdamW in PyTorch operators, one parameter after the other."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

from kernels.operation import Variant
from kernels.unsupported import needs_compiler


class Step(NamedTuple):
    """What a step needs beside the tensors: `keep` is 1 - lr · decay, `size` is lr / (1 - β₁ᵗ), and `root` sqrt(1 - β₂ᵗ)."""

    keep: float
    beta1: float
    beta2: float
    size: float
    root: float
    eps: float


Tensors = list[torch.Tensor]
Update = Callable[[Tensors, Tensors, Tensors, Tensors, Step], None]
"""(parameters of one dtype and device, their gradients, m, v, step) → None; updates parameters, m and v in place."""


def adamw(
    p: torch.Tensor, g: torch.Tensor, m: torch.Tensor, v: torch.Tensor,
    keep: float, beta1: float, beta2: float, size: float, root: float, eps: float,
) -> None:  # fmt: skip
    """Updates p, m and v in place. The arithmetic is m's: float32."""
    g = g.to(m.dtype)
    m.mul_(beta1).add_(g * (1 - beta1))
    v.mul_(beta2).add_(g * g * (1 - beta2))
    p.copy_(p.to(m.dtype) * keep - size * m / (v.sqrt() / root + eps))


@functools.cache
def scripted() -> Callable[..., None]:
    return torch.jit.script(adamw)


@functools.cache
def compiled() -> Callable[..., None]:
    return torch.compile(adamw)


def one_by_one(of: Callable[[], Callable[..., None]]) -> Update:
    def update(parameters: Tensors, gradients: Tensors, ms: Tensors, vs: Tensors, step: Step) -> None:
        for tensors in zip(parameters, gradients, ms, vs, strict=True):
            of()(*tensors, *step)

    return update


SOURCE = (Path(__file__),)
UPDATES = (
    Variant(1, "eager", one_by_one(lambda: adamw), "one PyTorch operator after the other", SOURCE),
    Variant(2, "scripted", one_by_one(scripted), "the same source, compiled by torch.jit.script", SOURCE),
    Variant(3, "inductor", one_by_one(compiled), "the same source, fused by torch.compile", SOURCE, needs_compiler),
)
