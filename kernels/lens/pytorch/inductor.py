"""The kernels that Inductor wrote, watched as they are called.

Inductor writes a Python module for each graph: the kernels, C++ or Triton, and a function that calls them. The module finds
them by name among its globals, so there they are replaced while a graph is called. In a kernel's source, its parameters say
what it does with each tensor: `in_ptr0` is read, `out_ptr0` written, `in_out_ptr0` both.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch

_KERNEL = re.compile(r"^(\w+) = async_compile\.\w+\(.*?(?:\bkernel|\bdef \1)\s*\(([^)]*)\)", re.DOTALL | re.MULTILINE)
_POINTER = re.compile(r"\b(in_out|in|out|ws)_ptr\d*\b")

Record = Callable[[str, Sequence[torch.Tensor], Sequence[torch.Tensor]], Any]


@contextlib.contextmanager
def watched(record: Record) -> Iterator[None]:
    """Call `record(name, read, written)`, tensors each, for every call of a kernel of Inductor's, before it."""
    from torch._inductor.output_code import CompiledFxGraph

    call = CompiledFxGraph.__call__

    def call_watched(graph: CompiledFxGraph, inputs: Sequence[Any]) -> Any:
        found = graph.compiled_fn_runner.call.__globals__
        # The graph keeps its module's text, whose file is gone once a cache for the moment is left.
        watching = {
            name: _Watched(name, found[name], _POINTER.findall(parameters), record)
            for name, parameters in _KERNEL.findall(graph.source_code)
        }
        with mock.patch.dict(found, watching):
            return call(graph, inputs)

    with mock.patch.object(CompiledFxGraph, "__call__", call_watched):
        yield


class _Watched:
    """A kernel in its own place: a C++ kernel is called, a Triton kernel is run."""

    def __init__(self, name: str, kernel: Any, pointers: Sequence[str], record: Record) -> None:
        self._name, self._kernel, self._pointers, self._record = name, kernel, pointers, record

    def _tell(self, args: Sequence[Any]) -> None:
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        used = list(zip(self._pointers, tensors, strict=True))
        read = [tensor for pointer, tensor in used if pointer != "out"]
        written = [tensor for pointer, tensor in used if pointer != "in"]
        self._record(self._name, read, written)

    def __call__(self, *args: Any) -> Any:
        self._tell(args)
        return self._kernel(*args)

    def run(self, *args: Any, **options: Any) -> Any:
        self._tell(args)
        return self._kernel.run(*args, **options)
