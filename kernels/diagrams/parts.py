"""What threads know of parts of a row in an online softmax, and how that is joined: a largest value and a sum each."""

from collections.abc import Sequence
from math import exp

from kernels.diagrams.canvas import Canvas
from kernels.diagrams.diagram import Diagram, Step

Part = tuple[float, float]
VALUES = (1.0, 3.0, 2.0, 0.0, 5.0, 4.0, 1.0, 2.0)
_LEFT, _CELL, _ROW, _HEIGHT = 96, 66, 64, 30


def merge(parts: Sequence[Part]) -> Part:
    """The largest value and the sum of exp(x - largest) of some columns, from those of parts of them."""
    largest = max(one for one, _ in parts)
    return largest, sum(total * exp(one - largest) for one, total in parts)


def softmax_parts() -> Diagram:
    """Eight values, each a part of one value, joined by pairs until one part is the row."""
    rows: list[list[Part]] = [[(x, 1.0) for x in VALUES]]
    while len(rows[-1]) > 1:
        rows.append([merge(rows[-1][at : at + 2]) for at in range(0, len(rows[-1]), 2)])
    steps = []
    for now in range(1, len(rows)):
        first, (largest, total) = rows[now - 1][:2], rows[now][0]
        scaled = " + ".join(f"{s:.2f} · exp({m:g} - {largest:g})" for m, s in first)
        said = f"{len(rows[now - 1])} parts become {len(rows[now])}. "
        said += f"The first: largest {largest:g}, sum {scaled} = {total:.2f}."
        steps.append(Step(f"{len(VALUES) // len(rows[now])} values a part", said, _canvas(rows, now)))
    return Diagram("What is known of the parts of a row: largest value | sum", steps)


def _canvas(rows: Sequence[Sequence[Part]], now: int) -> Canvas:
    canvas = Canvas(_LEFT + _CELL * len(VALUES), _ROW * (len(rows) - 1) + _HEIGHT + 4)
    for step, row in enumerate(rows):
        y, wide = 2 + _ROW * step, _CELL * len(VALUES) / len(row)
        label = "values" if step == 0 else f"{len(VALUES) // len(row)} each"
        canvas.text(_LEFT - 10, y + _HEIGHT / 2, label, "bold" if step == now else "", "end")
        for at, (largest, total) in enumerate(row):
            x = _LEFT + wide * (at + 0.5)
            if step and step <= now:
                kind = "used" if step == now else "soft"
                for side in (-1, 1):
                    canvas.arrow(x + side * wide / 4, y - _ROW + _HEIGHT + 1, x + side * 8, y - 1, kind)
            kind = "idle" if step > now else "used" if step == now else "plain"
            canvas.rect(x - _CELL / 2 + 2, y, _CELL - 4, _HEIGHT, kind)
            if step <= now:
                canvas.text(x, y + _HEIGHT / 2, f"{largest:g} | {total:.2f}", "small")
    return canvas
