"""Who owns which outputs of a matrix product, in each rung of its ladder in CUDA C."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import groupby
from typing import NamedTuple

from kernels.diagrams.canvas import Canvas
from kernels.diagrams.diagram import Diagram, Step
from kernels.hardware import WARP

SIDE = 128  # of y: one tile of the last rung
_SCALE, _STRIP, _LEFT, _ABOVE = 2.5, 56, 92, 92
_POINT = 5  # the least that is seen

Outputs = Collection[tuple[int, int]]


class Rung(NamedTuple):
    """The threads of a block, and the outputs, as row and column, that thread t of block 0 has; None: see `owners`."""

    threads: int
    thread_outputs: Callable[[int], list[tuple[int, int]]] | None

    def outputs(self, threads: int) -> set[tuple[int, int]]:
        """Of the first threads of block 0 together."""
        if self.thread_outputs is None:  # warps of 64×64, two of them beside each other
            warps = range(threads // WARP)
            return {(n // 2 * 64 + i, n % 2 * 64 + j) for n in warps for i in range(64) for j in range(64)}
        return {output for thread in range(threads) for output in self.thread_outputs(thread)}


def _registers(thread: int) -> list[tuple[int, int]]:
    return [(thread // 16 + 16 * r, thread % 16 + 16 * c) for r in range(4) for c in range(4)]


RUNGS = {
    "element": Rung(256, lambda thread: [(thread % SIDE, thread // SIDE)]),
    "coalesced": Rung(256, lambda thread: [(thread // SIDE, thread % SIDE)]),
    "shared": Rung(1024, lambda thread: [(thread // 32, thread % 32)]),
    "registers": Rung(256, _registers),
    "wmma": Rung(128, None),
}


def owners() -> Diagram:
    """The kernels of ops/matmul/matmul.cu and matmul_wmma.cu: the outputs of block 0, of its warp 0 and of thread 0, and the
    rows of x and columns of w that they need. Of a tensor core's outputs only the warp is known, not the thread.
    """
    steps = [_step(label, rung) for label, rung in RUNGS.items()]
    return Diagram(f"Who owns which outputs of y = x @ w, {SIDE} × {SIDE}", steps)


def _step(label: str, rung: Rung) -> Step:
    block, warp = rung.outputs(rung.threads), rung.outputs(WARP)
    thread = rung.outputs(1) if rung.thread_outputs else set()
    needs = sum(_needed(block))
    own = _count(len(thread), "output") if thread else "some of the warp's outputs"
    said = (
        f"Block 0 has {len(block):,} outputs in {_lines(block)}, and needs {needs} numbers at each k. "
        f"Warp 0 has {len(warp):,} of them, in {_lines(warp)}; thread 0 has {own}."
    )
    canvas = Canvas(640, _ABOVE + _SCALE * SIDE + 28)
    _matrices(canvas, block, "strong")
    _matrices(canvas, warp, "used")
    for row, column in thread:
        x, y = _LEFT + _SCALE * (column + 0.5), _ABOVE + _SCALE * (row + 0.5)
        canvas.rect(x - _POINT / 2, y - _POINT / 2, _POINT, _POINT, "wasted", 0)
    right = _LEFT + _SCALE * SIDE + 20
    legend = (
        ("thick: block 0", len(block), _lines(block)),
        ("blue: warp 0", len(warp), _lines(warp)),
        ("orange: thread 0", len(thread), _lines(thread)),
    )
    for number, (who, count, lines) in enumerate(legend):
        top = _ABOVE + 10 + 68 * number
        canvas.text(right, top, who, "bold", "start")
        canvas.text(right, top + 19, _count(count, "output") if count else "some of the warp's", "", "start")
        if count:
            canvas.text(right, top + 37, lines, "small", "start")
    canvas.text(right, _ABOVE + 226, "the block, at each k:", "bold", "start")
    canvas.text(right, _ABOVE + 245, f"{needs} numbers needed,", "", "start")
    canvas.text(right, _ABOVE + 263, f"{len(block):,} multiply-adds", "", "start")
    return Step(label, said, canvas)


def _matrices(canvas: Canvas, outputs: Outputs, kind: str) -> None:
    """Some outputs in y, with the rows of x and the columns of w that they need; the three matrices around the block's."""
    side = _SCALE * SIDE
    if kind == "strong":
        canvas.text(_LEFT - 36, _ABOVE - 10, "x", "bold")
        canvas.text(_LEFT - 16, _ABOVE - 36, "w", "bold")
        canvas.text(_LEFT + side / 2, _ABOVE + side + 16, "y", "bold")
        for x, y, width, height in (
            (_LEFT, _ABOVE, side, side),
            (_LEFT - 8 - _STRIP, _ABOVE, _STRIP, side),
            (_LEFT, _ABOVE - 8 - _STRIP, side, _STRIP),
        ):
            canvas.rect(x, y, width, height, "soft", 0)
    for row, column, rows, columns in rectangles(outputs):
        canvas.rect(_LEFT + _SCALE * column, _ABOVE + _SCALE * row, _SCALE * columns, _SCALE * rows, kind, 0)
    for row, _, rows, _ in rectangles({(i, 0) for i, _ in outputs}):
        canvas.rect(_LEFT - 8 - _STRIP, _ABOVE + _SCALE * row, _STRIP, _SCALE * rows, kind, 0)
    for _, column, _, columns in rectangles({(0, j) for _, j in outputs}):
        canvas.rect(_LEFT + _SCALE * column, _ABOVE - 8 - _STRIP, _SCALE * columns, _STRIP, kind, 0)


def rectangles(outputs: Outputs) -> list[tuple[int, int, int, int]]:
    """The outputs as row, column, rows and columns: neighbours in a row, then rows with the same columns below each other."""
    runs = []  # first column, columns, row
    for row, row_outputs in groupby(sorted(outputs), key=lambda output: output[0]):
        columns = [column for _, column in row_outputs]
        for _, run in groupby(enumerate(columns), key=lambda one: one[1] - one[0]):
            found = [column for _, column in run]
            runs.append((found[0], len(found), row))
    boxes = []
    for (column, columns), below in groupby(sorted(runs), key=lambda run: run[:2]):
        rows = [row for *_, row in below]
        for _, run in groupby(enumerate(rows), key=lambda one: one[1] - one[0]):
            found = [row for _, row in run]
            boxes.append((found[0], column, len(found), columns))
    return boxes


def _needed(outputs: Outputs) -> tuple[int, int]:
    """Rows of x and columns of w."""
    return len({row for row, _ in outputs}), len({column for _, column in outputs})


def _lines(outputs: Outputs) -> str:
    rows, columns = _needed(outputs)
    return f"{_count(rows, 'row')} and {_count(columns, 'column')}"


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}" + "s" * (number != 1)
