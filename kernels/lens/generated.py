"""The kernels that Inductor wrote, watched as they are called.

Inductor writes a Python module for each graph: the kernels, C++ or Triton, and a function that calls them. The module finds
them by name among its globals, so there they can be replaced. In a kernel's text, its parameters say what it does with
each tensor: `in_ptr0` is read, `out_ptr0` written, `in_out_ptr0` both.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import torch

_KERNEL = re.compile(r"^(\w+) = async_compile\.\w+\(.*?(?:\bkernel|\bdef \1)\s*\(([^)]*)\)", re.DOTALL | re.MULTILINE)
_POINTER = re.compile(r"\b(in_out|in|out|ws)_ptr\d*\b")

Record = Callable[[str, Sequence[torch.Tensor], Sequence[torch.Tensor]], Any]


@contextlib.contextmanager
def watched(record: Record) -> Iterator[None]:
    """Call `record(name, read, written)`, tensors each, for every call of a kernel of Inductor's, before it."""
    from torch._inductor.codecache import PyCodeCache

    load = PyCodeCache.load_by_key_path
    with contextlib.ExitStack() as stack:

        def watch(module: ModuleType) -> None:
            for name, parameters in _KERNEL.findall(Path(module.__file__).read_text()):
                kernel = _Watched(name, vars(module)[name], _POINTER.findall(parameters), record)
                stack.enter_context(mock.patch.dict(vars(module), {name: kernel}))

        def load_and_watch(*args: Any, **kwargs: Any) -> ModuleType:
            known = set(map(id, PyCodeCache.modules))
            module = load(*args, **kwargs)
            if id(module) not in known:
                watch(module)
            return module

        for module in PyCodeCache.modules:
            watch(module)
        stack.enter_context(mock.patch.object(PyCodeCache, "load_by_key_path", load_and_watch))
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
