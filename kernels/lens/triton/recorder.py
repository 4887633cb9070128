"""Counts the accesses of a Triton launch.

Every access of the interpreter goes through four functions of its builder. Here they count, and let through only the lanes
that are inside of the arguments.
"""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any
from unittest import mock

import numpy as np
import triton
from triton.runtime import interpreter

from kernels.hardware import SECTOR_BYTES
from kernels.lens.arrays import address, outside
from kernels.lens.finding import Finding
from kernels.lens.result import Access
from kernels.lens.triton.memory import Memory, Region
from kernels.lens.triton.races import VERBS, Races, Step, Stored
from kernels.lens.triton.reductions import in_pairs


def _poison(dtype: np.dtype) -> float | int:
    """What is read outside of the arguments, or is given to a lane that its mask switches off and that has no `other`.

    NaN, or a number that no sum hides and few sums overflow with.
    """
    if dtype.kind == "f":
        return np.nan
    return 0 if dtype.kind == "b" else min(np.iinfo(dtype).max, 999_999)


@dataclass
class _Count:
    """What was counted of one call in the kernel's source."""

    requests: int = 0
    lanes: int = 0
    masked: int = 0
    sectors: int = 0
    fewest_sectors: int = 0
    instructions: set[int] = field(default_factory=set)


class Recorder:
    """Counts the accesses of a launch. `filename`: of the kernel's source, to whose lines they belong."""

    def __init__(self, filename: str, memory: Memory, grid: tuple[int, int, int]) -> None:
        self._outsiders: dict[tuple, Finding] = {}
        self._races = Races(grid)
        self._filename = filename
        self._memory = memory
        self._counts: dict[tuple, _Count] = {}
        self._requests: Counter[tuple] = Counter()  # of arrays, by programs

    def accesses(self) -> tuple[Access, ...]:
        return tuple(
            Access(
                line=line,
                kind=kind,
                space="global",
                width=width,
                names=names,
                instructions=len(count.instructions),
                requests=count.requests,
                lanes=count.lanes,
                bytes=count.lanes * width,
                sectors=count.sectors,
                fewest_sectors=count.fewest_sectors,
                wavefronts=0,
                fewest_wavefronts=0,
                masked=count.masked,
            )
            for (line, kind, width, names), count in sorted(self._counts.items(), key=lambda one: one[0])
        )

    def findings(self) -> tuple[Finding, ...]:
        found = [*self._outsiders.values(), *self._races.findings.values()]
        return tuple(sorted(found, key=lambda one: one.lines[-1]))

    def busiest(self) -> dict[str, int]:
        """Of each array, the requests of the program that made the most."""
        found: dict[str, int] = {}
        for (name, _), requests in self._requests.items():
            found[name] = max(requests, found.get(name, 0))
        return found

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Inside, the interpreter's accesses and the addresses of its arguments are ours."""
        builder = interpreter.InterpreterBuilder
        argument_cast, tensor_patch = interpreter._implicit_cvt, interpreter._patch_lang_tensor
        load, store = builder.create_masked_load, builder.create_masked_store
        rmw, cas = builder.create_atomic_rmw, builder.create_atomic_cas

        def argument(arg: Any) -> Any:
            made = argument_cast(arg)
            if hasattr(arg, "data_ptr"):
                made.handle.data = np.array([self._memory.address_of(interpreter._unwrap_tensor(arg))], dtype=np.uint64)
            return made

        def masked_load(self_, pointers, mask, other, *rest, **named):
            real, inside, outside = self._access("load", pointers, mask)
            loaded = load(self_, real, inside, other, *rest, **named)
            unknown = outside if other is not None else ~inside.data
            if unknown.any():
                loaded.data[unknown] = _poison(loaded.data.dtype)
            return loaded

        def masked_store(self_, pointers, value, mask, *rest):
            real, inside, _ = self._access("store", pointers, mask, value)
            return store(self_, real, value, inside, *rest)

        def atomic_rmw(self_, operation, pointers, value, mask, *rest):
            real, inside, _ = self._access("atomic", pointers, mask, order=rest[0])
            return rmw(self_, operation, real, value, inside, *rest)

        def atomic_cas(self_, pointers, compare, value, *rest):
            real, inside, outside = self._access("atomic", pointers, True, order=rest[0])
            if outside.any():  # it takes no mask
                return interpreter.TensorHandle(np.full_like(compare.data, 0), compare.dtype.scalar)
            return cas(self_, real, compare, value, *rest)

        def patched_tensor(tensor, scope):
            tensor_patch(tensor, scope)
            # Triton 3.6 makes an int of an array of one element, which NumPy no longer does.
            scope.set_attr(tensor, "__index__", lambda self_: int(self_.handle.data.item()))

        ours = {"masked_load": masked_load, "masked_store": masked_store}
        ours |= {"atomic_rmw": atomic_rmw, "atomic_cas": atomic_cas}
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.object(interpreter, "_implicit_cvt", argument))
            stack.enter_context(mock.patch.object(interpreter, "_patch_lang_tensor", patched_tensor))
            stack.enter_context(mock.patch.object(interpreter.ReduceOps, "generic_reduce", in_pairs))
            for name, function in ours.items():
                stack.enter_context(mock.patch.object(builder, f"create_{name}", function))
            yield

    def _access(
        self, kind: str, handle: Any, mask: Any, value: Any = None, order: Any = None
    ) -> tuple[Any, Any, np.ndarray]:
        """Count an access. The pointers as they really are, the mask of lanes that may use them, and which others would.

        value: that is stored. order: of an atomic.
        """
        pointers = handle.data
        asked = np.broadcast_to(np.asarray(getattr(mask, "data", mask), dtype=bool), pointers.shape)
        width = max(handle.get_element_ty().primitive_bitwidth // 8, 1)
        real, outside = np.zeros_like(pointers), np.zeros(pointers.shape, bool)
        frame = self._frame()
        line = frame.f_lineno if frame else 0
        program = interpreter.interpreter_builder.grid_idx
        sectors = fewest = 0
        names, size = [], width
        for region, here, seen in self._memory.touched(pointers):
            stretch = region.stretch if region else 1
            size = width // stretch
            offsets = seen // stretch
            active = here & asked
            # Of distinct bytes, however often lanes name them.
            distinct = np.unique(offsets[active])
            sectors += len(np.unique(distinct // SECTOR_BYTES))
            fewest += -(-len(distinct) * size // SECTOR_BYTES)
            wrong = active if region is None else active & ((offsets < 0) | (offsets + size > region.array.size))
            if wrong.any():
                self._outside(kind, frame, region, offsets[wrong], size, int(active.sum()))
                outside |= wrong
            if region:
                names.append(region.array.name)
                real[here] = (seen[here] + region.real).astype(np.uint64)
                lanes = active & ~wrong
                stored = None if value is None else Stored(real[lanes], np.broadcast_to(value.data, real.shape)[lanes])
                step = Step(kind, program, line, size, order is not None and order.name != "RELAXED")
                self._races.access(step, region.array, offsets[lanes], stored)
        count = self._counts.setdefault((line, kind, size, tuple(names)), _Count())
        lanes = int(asked.sum())
        count.requests += 1
        self._requests.update((name, program) for name in names)
        count.lanes += lanes
        count.masked += asked.size - lanes
        count.sectors += sectors
        count.fewest_sectors += fewest
        count.instructions.add(frame.f_lasti if frame else 0)
        inside = interpreter.TensorHandle(asked & ~outside, triton.language.int1)
        return interpreter.TensorHandle(real, handle.dtype), inside, outside

    def _frame(self) -> FrameType | None:
        """Where the kernel's source is: the innermost frame of its file."""
        frame = sys._getframe(2)
        while frame and frame.f_code.co_filename != self._filename:
            frame = frame.f_back
        return frame

    def _outside(
        self, kind: str, frame: FrameType | None, region: Region | None, offsets: np.ndarray, size: int, active: int
    ) -> None:
        """Note lanes that are outside of an argument."""
        line = frame.f_lineno if frame else 0
        key = line, kind, region
        if key in self._outsiders:
            known = self._outsiders[key]
            self._outsiders[key] = replace(known, count=known.count + len(offsets))
            return
        program = interpreter.interpreter_builder.grid_idx
        array = region.array if region else None
        first = int(offsets[0])
        at = address(array, first, size)
        where = outside(array, first, size) if array else "where none of the arguments is near"
        who = f"program {program} {VERBS[kind]} {at}, {where}"
        if active > 1:
            who += f", with {len(offsets):,} of its {active:,} lanes outside"
        self._outsiders[key] = Finding("out of bounds", (line,), program, (), at, who, len(offsets))
