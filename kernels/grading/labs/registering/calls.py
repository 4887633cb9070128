"""What a call of a registered operator asks for: operators, and launches of kernels."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernels.grading.properties.differences import differing
from kernels.triton.launch import launch, watched

Called = tuple[torch._ops.OpOverload, tuple, Any]


class Calls(TorchDispatchMode):
    """What a call asks for: operators that are not PyTorch's, with their arguments and result; the names of the arguments
    that each changed; and the names of the kernels that are launched."""

    supports_higher_order_operators = True  # in a traced graph, a call that writes to its argument is one

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[Called] = []
        self.changed: list[set[str]] = []
        self.launched: list[str] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if not isinstance(func, torch._ops.OpOverload) or func.namespace in ("aten", "prim", "prims"):
            return func(*args, **(kwargs or {}))
        names = [one.name for one in func._schema.arguments]
        given = {name: arg for name, arg in zip(names, args, strict=False) if has_values(arg)}
        before = {name: arg.clone() for name, arg in given.items()}
        result = func(*args, **(kwargs or {}))
        self.operators.append((func, args, result))
        self.changed.append({name for name, arg in given.items() if differing(arg, before[name]).any()})
        return result

    @contextlib.contextmanager
    def watching(self) -> Iterator[Calls]:
        with self, watched(self._launch):
            yield self

    def _launch(self, kernel: Any, grid: Any, args: Sequence[Any], options: Mapping[str, Any]) -> None:
        self.launched.append(kernel.fn.__name__)
        if not all(has_values(arg) for arg in args if isinstance(arg, torch.Tensor)):
            raise RuntimeError(f"{self.launched[-1]} was launched on tensors without memory")
        with watched(None):
            launch(kernel, grid, *args, **options)


def has_values(arg: Any) -> bool:
    """Whether it is a plain tensor, none of those that compilers trace with."""
    return type(arg) is torch.Tensor and not arg.is_meta
