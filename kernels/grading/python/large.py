"""Launches of Triton that are too large to run: on tensors of the device "meta", which have no elements.

Of a launch one program runs, whose loads give 0 and whose stores go nowhere. How much it would store, and where, is known then.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple
from unittest import mock

import numpy as np
import torch
from triton.runtime import interpreter
from triton.runtime.errors import InterpreterError

from kernels.lens.triton import run, trace
from kernels.triton.descriptors import base_of, with_base

_LOADS = 1_500


class Launch(NamedTuple):
    """constants: constexprs by name, and the compiler's options. stored: elements, by the program that ran, if it ended.
    outside: of these, those that lie in no tensor."""

    grid: tuple[int, int, int]
    constants: Mapping[str, Any]
    stored: int | None = None
    outside: int = 0


def launched(
    function: Callable, args: Mapping[str, Any], *, runs: Literal["first", "last"] | None
) -> Launch | str | None:
    """The first launch of a call, or what is wrong with its grid, or None where the call came to none.

    runs: of its programs, which is stopped after many loads.
    """
    given = {name: arg.detach().to("meta") if isinstance(arg, torch.Tensor) else arg for name, arg in args.items()}
    found: list[Launch | str] = []

    def take(kernel: Any, grid: Any, values: Sequence[Any], options: Mapping[str, Any]) -> None:
        bound = run.bind(kernel, values, options)
        try:
            size = run.grid_of(grid, bound)
        except ValueError as error:
            found.append(str(error))
        else:
            stored = _stored(kernel, size, bound, last=runs == "last") if runs else ()
            found.append(Launch(size, run.constants_of(kernel, bound, options), *stored))

    with contextlib.suppress(Exception), trace.watched(take):  # on results that no one computed
        function(**given)
    return found[0] if found else None


def _stored(
    kernel: Any, grid: tuple[int, int, int], args: Mapping[str, Any], last: bool
) -> tuple[int, int] | tuple[()]:
    """How many elements a program stores, and how many of them outside of all tensors; nothing if it did not end."""
    loads = stored = outside = 0
    somewhere = {name: _somewhere(arg) for name, arg in args.items()}
    spans = [
        (base_of(somewhere[name]).data_ptr(), _bytes(base_of(arg)))
        for name, arg in args.items()
        if isinstance(base_of(arg), torch.Tensor)
    ]

    def load(self: Any, pointers: Any, *_: Any) -> Any:
        nonlocal loads
        if (loads := loads + 1) > _LOADS:
            raise RuntimeError(f"more than {_LOADS} loads")
        of = pointers.get_element_ty()
        return interpreter.TensorHandle(np.zeros(pointers.data.shape, interpreter._get_np_dtype(of)), of)

    def store(self: Any, pointers: Any, value: Any, mask: Any, *_: Any) -> None:
        nonlocal stored, outside
        to = pointers.data[np.broadcast_to(mask.data, pointers.data.shape).astype(bool)]
        stored += to.size
        outside += int(np.count_nonzero(~np.any([(at <= to) & (to < at + size) for at, size in spans], axis=0)))

    def update(*_: Any) -> None:
        raise NotImplementedError("an atomic operation has no value without memory")

    def set_grid(self: Any, *_: int) -> None:
        self.grid_dim = grid

    def set_program(self: Any, *_: int) -> None:
        self.grid_idx = tuple(size - 1 for size in grid) if last else (0, 0, 0)

    parts: dict[str, Any] = {
        "create_masked_load": load,
        "create_masked_store": store,
        "create_atomic_rmw": update,
        "create_atomic_cas": update,
        "set_grid_dim": set_grid,
        "set_grid_idx": set_program,
    }
    with mock.patch.multiple(interpreter.InterpreterBuilder, **parts), run.plain_constants(kernel):
        try:
            run.launch(kernel, grid=(1, 1, 1), warmup=False, **somewhere)
        except InterpreterError:
            return ()
    return stored, outside


def _bytes(tensor: torch.Tensor) -> int:
    """From its first element to its last."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def _somewhere(arg: Any) -> Any:
    """In place of a tensor one with an address, at which nothing is read."""
    base = base_of(arg)
    return with_base(arg, torch.empty(1, dtype=base.dtype)) if isinstance(base, torch.Tensor) else arg
