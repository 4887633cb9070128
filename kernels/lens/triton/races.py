"""Races between the programs of a Triton launch, which a GPU runs in any order, and the interpreter one after another.

Two accesses of one element by two programs, one of them a write, are a race unless an atomic is between them: after its own
atomic on an array, a program knows of all that programs did before theirs on that array. Within a program nothing is judged.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from triton.runtime import interpreter

from kernels.lens.arrays import Array, address
from kernels.lens.finding import Finding

VERBS = {"load": "reads", "store": "writes", "atomic": "updates (an atomic)"}


class Step(NamedTuple):
    """What a program does in a line: of so many bytes at each address. `orders`: an atomic that is not relaxed."""

    kind: str
    program: tuple[int, int, int]
    line: int
    size: int
    orders: bool


class Stored(NamedTuple):
    """What a store is about to write, and the addresses, by lanes."""

    pointers: np.ndarray
    values: np.ndarray

    def changes(self) -> np.ndarray:
        """Which lanes write another value than is there: the same from two programs is no race."""
        everywhere = np.ones(self.pointers.shape, bool)
        there = interpreter._interpreter.load(self.pointers, everywhere, np.zeros_like(self.values), self.values.dtype)
        return there != self.values


class _Shadow:
    """Of each element, by their numbers: the last write, the last read, and the last read by another program than that's."""

    def __init__(self, elements: int) -> None:
        self.write, self.read, self.other = (np.zeros(elements, np.int32) for _ in range(3))


class Races:
    """Of one launch of so many programs. Accesses are numbered from 1 in the order in which they run."""

    def __init__(self, grid: tuple[int, int, int]) -> None:
        self.findings: dict[tuple, Finding] = {}
        self._grid = grid
        self._shadows: dict[str, _Shadow] = {}
        self._released: dict[str, np.ndarray] = {}  # by array: of each program, up to where what it did is known there
        self._known = np.zeros(math.prod(grid), np.int32)  # the same, to the program that runs
        self._running = -1
        self._programs = np.full(1 << 12, -1, np.int32)  # of each access
        self._steps: list[Step | None] = [None]

    def access(self, step: Step, array: Array, offsets: np.ndarray, stored: Stored | None) -> None:
        """See an access of an array at each of these offsets, all inside of it."""
        x, y, z = step.program
        running = x + self._grid[0] * (y + self._grid[1] * z)
        if running != self._running:
            self._running = running
            self._known[:] = 0
        number = self._number(step)
        parts = max(step.size // array.element, 1)  # where a pointer's type is wider than the tensor's
        elements = np.add.outer(offsets // array.element, np.arange(parts))
        shadow = self._shadows.get(array.name)
        if shadow is None:
            shadow = self._shadows[array.name] = _Shadow(-(-array.size // array.element))
        self._check(shadow.write, elements, array, number, stored)
        if step.kind == "load":
            mine = self._programs[shadow.read[elements]] == running
            shadow.other[elements] = np.where(mine, shadow.other[elements], shadow.read[elements])
            shadow.read[elements] = number
        else:
            self._check(shadow.read, elements, array, number)
            self._check(shadow.other, elements, array, number)
            shadow.write[elements] = number
        if step.orders:
            released = self._released.setdefault(array.name, np.zeros_like(self._known))
            np.maximum(self._known, released, out=self._known)
            np.maximum(released, self._known, out=released)
            released[running] = number

    def _number(self, step: Step) -> int:
        number = len(self._steps)
        if number == len(self._programs):
            self._programs = np.concatenate([self._programs, np.full_like(self._programs, -1)])
        self._programs[number] = self._running
        self._steps.append(step)
        return number

    def _check(
        self,
        shadow: np.ndarray,
        elements: np.ndarray,
        array: Array,
        number: int,
        stored: Stored | None = None,
    ) -> None:
        """Note the elements whose last such access another program made and this one does not know of."""
        before = shadow[elements]
        by = self._programs[before]
        wrong = (by >= 0) & (by != self._running) & (before > self._known[by])
        if not wrong.any():
            return
        if stored is not None:
            wrong &= stored.changes()[:, None]
        for other in np.unique(before[wrong]):
            if self._steps[other].kind == self._steps[number].kind == "atomic":
                continue
            here = elements[wrong & (before == other)]
            self._note(array, int(other), number, int(here[0]), len(here))

    def _note(self, array: Array, first: int, second: int, element: int, count: int) -> None:
        earlier, later = self._steps[first], self._steps[second]
        lines = earlier.line, later.line
        key = array.name, *lines, earlier.kind, later.kind
        if known := self.findings.get(key):
            self.findings[key] = Finding(**vars(known) | {"count": known.count + count})
            return
        at = address(array, element * array.element, array.element)
        cause = (
            f"program {earlier.program} {VERBS[earlier.kind]} {at} on line {earlier.line} and program {later.program} "
            f"{VERBS[later.kind]} it on line {later.line}, and programs run in any order: "
            + ("make both atomic, or launch twice" if "atomic" in key else "launch twice, or use an atomic")
        )
        self.findings[key] = Finding("race", lines, later.program, (), at, cause, count, earlier.program)
