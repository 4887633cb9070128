"""What an operation is tried on: cases, what they cost at least, and what comes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch


@dataclass(frozen=True)
class Case:
    """One set of inputs: enough to make the same tensors again anywhere.

    Args:
        shape: of the operation's main input.
        dtype: of the inputs, by torch's name: "float32", "float16", "bfloat16".
        layout: of the main input and of the output's gradient; see kernels.layouts.
        values: "realistic" (a mean and outliers), "offset" (a mean far larger than the spread), "constant"
            (no spread), "large", "small", "nonfinite" (one row with a NaN, one with an infinity), or what the operation
            alone knows, such as "masked".
        seed: of the random numbers.
        params: the operation's own parameters, such as eps: they are passed to it.
        sizes: what shapes the inputs beside `shape`, such as kv_heads or classes: they are not passed.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    layout: str = "contiguous"
    values: str = "realistic"
    seed: int = 0
    params: Mapping[str, object] = field(default_factory=dict, hash=False)
    sizes: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not isinstance(getattr(torch, self.dtype, None), torch.dtype):
            raise ValueError(f"dtype: got {self.dtype!r}, expected torch's name of one, such as 'float32'")

    def __str__(self) -> str:
        words = ["×".join(map(str, self.shape)), self.dtype]
        words += [word for word in (self.layout, self.values) if word not in ("contiguous", "realistic")]
        words += [f"{name}={value}" for name, value in (*self.sizes.items(), *self.params.items())]
        return " ".join(words)


@dataclass(frozen=True)
class Cost:
    """The least an operation must do: bytes moved (each input read once, each output written once) and operations."""

    bytes: int
    flops: int

    @classmethod
    def rowwise(cls, case: Case, matrices: int, operations: int, vectors: int = 0, row_bytes: int = 0) -> Cost:
        """Of so many tensors of the case's shape, vectors of its width and bytes for each row, and so many operations an
        element."""
        elements, itemsize = torch.Size(case.shape).numel(), getattr(torch, case.dtype).itemsize
        moved = (matrices * elements + vectors * case.shape[-1]) * itemsize
        return cls(moved + row_bytes * torch.Size(case.shape[:-1]).numel(), flops=operations * elements)


@dataclass(frozen=True)
class Output:
    """One result of an operation.

    Args:
        name: such as "y", "loss" or "lse".
        dtype: torch's name; None for the case's. Integers and booleans are compared exactly.
        differentiable: whether a gradient comes in for it; never for integers and booleans.
    """

    name: str = "y"
    dtype: str | None = None
    differentiable: bool = True

    def torch_dtype(self, case: Case) -> torch.dtype:
        return getattr(torch, self.dtype or case.dtype)


def few_rows(case: Case, rows: int) -> Case:
    """The case with at most so many of its first dimension, unless it has only one."""
    return replace(case, shape=(min(case.shape[0], rows), *case.shape[1:])) if len(case.shape) > 1 else case
